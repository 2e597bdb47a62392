//! The metrics of `connect`, and whether they keep within their bounds.

use std::collections::BTreeMap;

use super::round::RoundTimes;
use crate::run::{Metric, RunOutcome, scrapes::ScrapeTimes};

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// The metrics in `result.json`, with their units.
pub(super) const METRICS: &[Metric] = &[
    metric("connect_s", "s"),
    metric("nodes_ready_s", "s"),
    metric("reconnect_s", "s"),
    metric("resumed_pct", "%"),
    metric("restart_s", "s"),
    metric("connect_server_cpu_ms_per_agent", "ms"),
    metric("connect_agents_cpu_ms_per_agent", "ms"),
    metric("reconnect_server_cpu_ms_per_agent", "ms"),
    metric("reconnect_agents_cpu_ms_per_agent", "ms"),
    metric("restart_server_cpu_ms_per_agent", "ms"),
    metric("server_rss_bytes", "B"),
];

/// The longest that 10,000 agents may take to connect, and to connect again with the sessions of TLS that they have.
const CONNECT_S_MAX: f64 = 20.0;
const RECONNECT_S_MAX: f64 = 5.0;
/// Nearly all must take their sessions of TLS up again.
const RESUMED_PCT_MIN: f64 = 99.0;

/// What connecting has shown.
#[derive(Debug)]
pub(super) struct ConnectFigures {
    pub agents: u32,
    pub is_secure: bool,
    /// The first connection of all agents.
    pub connect: RoundTimes,
    /// Seconds until a client saw all nodes ready.
    pub ready_s: f64,
    /// The round after all connections were cut.
    pub reconnect: RoundTimes,
    /// How many of them took up a session of TLS.
    pub resumed: u64,
    /// After the server was killed, from the start of the next one.
    pub restart: RoundTimes,
    /// The server's memory in the end.
    pub rss_bytes: Option<u64>,
    /// Reads of `/metrics` while all were connected.
    pub scrapes: ScrapeTimes,
}

impl ConnectFigures {
    /// As a result; `timed` says whether times may be too long.
    pub fn outcome(&self, timed: bool) -> RunOutcome {
        let note = "connect_s runs from the first dialing until all sessions are open, reconnect_s from the cut of all \
                    connections, with the pause that agents make, and restart_s from the start of the server in the place of \
                    the one that was killed, which knows none of its sessions of TLS";
        RunOutcome {
            metrics: self.metrics(),
            notes: vec![note.to_owned()],
            failures: self.failures(timed),
            ..RunOutcome::default()
        }
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let each_ms = |cpu_s: f64| Some(cpu_s * 1e3 / f64::from(self.agents));
        let found = [
            ("connect_s", Some(self.connect.seconds)),
            ("nodes_ready_s", Some(self.ready_s)),
            ("reconnect_s", Some(self.reconnect.seconds)),
            ("resumed_pct", self.is_secure.then(|| self.resumed_pct())),
            ("restart_s", Some(self.restart.seconds)),
            ("connect_server_cpu_ms_per_agent", each_ms(self.connect.server_cpu_s)),
            ("connect_agents_cpu_ms_per_agent", each_ms(self.connect.agents_cpu_s)),
            ("reconnect_server_cpu_ms_per_agent", each_ms(self.reconnect.server_cpu_s)),
            ("reconnect_agents_cpu_ms_per_agent", each_ms(self.reconnect.agents_cpu_s)),
            ("restart_server_cpu_ms_per_agent", each_ms(self.restart.server_cpu_s)),
            ("server_rss_bytes", self.rss_bytes.map(|bytes| bytes as f64)),
        ];
        let found = found.into_iter().filter_map(|(name, value)| Some((name, value?)));
        found.chain(self.scrapes.metrics()).collect()
    }

    fn resumed_pct(&self) -> f64 {
        self.resumed as f64 * 100.0 / f64::from(self.agents)
    }

    fn failures(&self, timed: bool) -> Vec<String> {
        let mut failures = Vec::new();
        if self.is_secure && self.resumed_pct() < RESUMED_PCT_MIN {
            failures
                .push(format!("{} of {} agents took up their sessions of TLS", self.resumed, self.agents));
        }
        let times = [
            ("connect", self.connect.seconds, CONNECT_S_MAX),
            ("connect again", self.reconnect.seconds, RECONNECT_S_MAX),
            ("connect to the next server", self.restart.seconds, CONNECT_S_MAX),
        ];
        for (what, seconds, max) in times.into_iter().filter(|(_, seconds, max)| timed && seconds > max) {
            failures.push(format!("the agents took {seconds:.1} s to {what}, more than {max} s"));
        }
        failures.extend(self.scrapes.failure().filter(|_| timed));
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_agents_and_sessions_that_are_not_resumed_fail_a_run() {
        let took = |seconds| RoundTimes { seconds, server_cpu_s: 5.0, agents_cpu_s: 2.0 };
        let (connect, reconnect, restart) = (took(19.0), took(4.0), took(20.0));
        let figures = ConnectFigures {
            agents: 10_000,
            is_secure: true,
            connect,
            ready_s: 19.5,
            reconnect,
            resumed: 9_950,
            restart,
            rss_bytes: None,
            scrapes: ScrapeTimes::default(),
        };
        let outcome = figures.outcome(true);
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert_eq!(outcome.metrics["connect_server_cpu_ms_per_agent"], 0.5);
        assert_eq!(outcome.metrics["resumed_pct"], 99.5);
        let slow = ConnectFigures { reconnect: took(5.1), resumed: 9_000, ..figures };
        assert_eq!(slow.outcome(true).failures.len(), 2);
        assert_eq!(slow.outcome(false).failures, ["9000 of 10000 agents took up their sessions of TLS"]);
    }
}

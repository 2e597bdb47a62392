//! The metrics of `failover`, and whether they keep within their bounds.

use std::collections::BTreeMap;

use super::{FailureMode, observer::RecoveryTimes, probe::PlacementProbes};
use crate::{
    record::Plot,
    run::{Metric, RunOutcome},
};

/// Failures that are named, for people.
const NAMED_MAX: usize = 20;

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// The metrics in `result.json`, with their units.
pub(super) const METRICS: &[Metric] = &[
    metric("time_to_complete_s", "s"),
    metric("from_kill_s", "s"),
    metric("election_s", "s"),
    metric("reconnected_s", "s"),
    metric("confirmed_s", "s"),
    metric("state_complete_s", "s"),
    metric("first_placement_s", "s"),
    metric("first_history_answer_s", "s"),
    metric("write_wait_s_max", "s"),
    metric("writes_unanswered", "1"),
    metric("placed_meanwhile", "1"),
    metric("bytes_received", "B"),
    metric("server_cpu_s", "s"),
    metric("server_rss_max_bytes", "B"),
    metric("servers_rss_max_bytes", "B"),
    metric("tasks_per_s", "1/s"),
    metric("connections", "1"),
    metric("sessions_moved", "1"),
];

/// The longest until all is as it should be: after the election and from the kill of a leader, and from the start of all servers.
const WARM_S_MAX: f64 = 2.0;
const WARM_FROM_KILL_S_MAX: f64 = 4.0;
const COLD_S_MAX: f64 = 15.0;
/// The most memory of a server, and of all together.
const SERVER_BYTES_MAX: u64 = 4 << 30;
const SERVERS_BYTES_MAX: u64 = 20 << 30;

/// What servers had used.
#[derive(Debug, Clone, Default)]
pub(super) struct ServersUsage {
    /// Processor seconds of each, by its position.
    pub cpu_s: BTreeMap<usize, f64>,
    /// The most memory that each of them ever had, by its position.
    pub rss_max_bytes: BTreeMap<usize, u64>,
}

impl ServersUsage {
    /// Processor seconds of all since then; of servers that were started since, all of theirs.
    pub fn cpu_s_since(&self, before: &Self, mode: FailureMode) -> f64 {
        let earlier = |member: &usize| match mode {
            FailureMode::Warm => before.cpu_s.get(member).copied().unwrap_or_default(),
            FailureMode::Cold => 0.0,
        };
        self.cpu_s.iter().map(|(member, cpu_s)| cpu_s - earlier(member)).sum()
    }

    /// The most memory of each server, whether of the process that it was before or of the one that it is.
    pub fn memory_with(&self, before: &Self) -> ServersMemory {
        let mut all = before.rss_max_bytes.clone();
        for (member, bytes) in &self.rss_max_bytes {
            let most = all.entry(*member).or_default();
            *most = (*most).max(*bytes);
        }
        ServersMemory {
            most_bytes: all.values().copied().max().unwrap_or_default(),
            together_bytes: all.values().sum(),
        }
    }
}

/// The most memory that servers ever had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ServersMemory {
    /// The memory of the largest one, in bytes.
    pub most_bytes: u64,
    /// The sum of their largest sizes, in bytes.
    pub together_bytes: u64,
}

/// What a failover has shown. Times in seconds are since the kill.
#[derive(Debug)]
pub(super) struct FailoverFigures {
    pub mode: FailureMode,
    /// Allocations that run or have ended.
    pub tasks: u32,
    /// When servers were started again; 0 where none is.
    pub started_s: f64,
    pub times: RecoveryTimes,
    /// When the last of the servers first answered what has ended, if anything has.
    pub first_answer_s: Option<f64>,
    pub probed: PlacementProbes,
    /// By agents, until all was known again.
    pub sent_bytes: u64,
    pub cpu_s: f64,
    pub memory: ServersMemory,
    pub connections: u32,
    /// Sessions that dead servers had, and that were opened since.
    pub moved: u32,
    pub opened: u64,
    /// What should not have been, for people.
    pub wrong: Vec<String>,
}

impl FailoverFigures {
    /// As a result; `timed` says whether it may take too long, or too much memory.
    pub fn outcome(self, plots: Vec<Plot>, timed: bool) -> RunOutcome {
        let mut outcome =
            RunOutcome { metrics: self.metrics(), notes: self.notes(), ..RunOutcome::default() };
        let more = self.wrong.len().saturating_sub(NAMED_MAX);
        outcome.failures = self.failures();
        if timed {
            outcome.failures.extend(self.missed());
        }
        outcome.failures.extend(self.wrong.into_iter().take(NAMED_MAX));
        outcome.failures.extend((more > 0).then(|| format!("and {more} more of that")));
        outcome.series.plots = plots;
        outcome
    }

    /// When the clock of the experiment begins.
    fn origin_s(&self) -> f64 {
        match self.mode {
            FailureMode::Warm => self.times.elected_s,
            FailureMode::Cold => self.started_s,
        }
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let (origin_s, times) = (self.origin_s(), &self.times);
        // What was there before the new leader was named took no time.
        let since = |at_s: f64| (at_s - origin_s).max(0.0);
        let complete_s = since(times.all_s());
        let found = [
            ("time_to_complete_s", Some(complete_s)),
            ("from_kill_s", Some(times.all_s())),
            ("election_s", Some(times.elected_s - self.started_s)),
            ("reconnected_s", Some(times.reconnected_s - self.started_s)),
            ("confirmed_s", Some(since(times.confirmed_s))),
            ("state_complete_s", Some(since(times.complete_s))),
            ("first_placement_s", Some(since(times.placed_s))),
            ("first_history_answer_s", self.first_answer_s.map(since)),
            ("write_wait_s_max", Some(self.probed.write_s_max)),
            ("writes_unanswered", Some(self.probed.unanswered.into())),
            ("placed_meanwhile", Some(self.probed.placed.into())),
            ("bytes_received", Some(self.sent_bytes as f64)),
            ("server_cpu_s", Some(self.cpu_s)),
            ("server_rss_max_bytes", Some(self.memory.most_bytes as f64)),
            ("servers_rss_max_bytes", Some(self.memory.together_bytes as f64)),
            ("tasks_per_s", (complete_s > 0.0).then(|| f64::from(self.tasks) / complete_s)),
            ("connections", Some(self.connections.into())),
            ("sessions_moved", Some(self.opened as f64)),
        ];
        found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    fn notes(&self) -> Vec<String> {
        let origin = match self.mode {
            FailureMode::Warm => "times run from the moment that a server named the new leader",
            FailureMode::Cold => "times run from the start of the servers",
        };
        vec![
            format!(
                "{origin}; from_kill_s, election_s and reconnected_s from the kill or the start; bytes_received is what agents \
                 sent to all servers, before TLS, and connections are theirs"
            ),
            "what ended before is compared as far as it is in the log: of a task's events only the end of its last process"
                .to_owned(),
            "a task asks for 10 MiB, the least there is; the published benchmark's asked for 5 MB".to_owned(),
        ]
    }

    fn failures(&self) -> Vec<String> {
        let Self { moved, opened, .. } = self;
        let text = || format!("agents have opened {opened} sessions, and dead servers had {moved}");
        (*opened > u64::from(*moved)).then(text).into_iter().collect()
    }

    /// The aims of a full run that it has missed.
    fn missed(&self) -> Vec<String> {
        let from_kill_s = self.times.all_s();
        let complete_s = (from_kill_s - self.origin_s()).max(0.0);
        let times = match self.mode {
            FailureMode::Warm => vec![
                ("the election of another leader", complete_s, WARM_S_MAX),
                ("the kill of the leader", from_kill_s, WARM_FROM_KILL_S_MAX),
            ],
            FailureMode::Cold => vec![("the start of the servers", complete_s, COLD_S_MAX)],
        };
        let late = times.into_iter().filter(|(_, seconds, max)| seconds > max);
        let late = late.map(|(what, seconds, max)| {
            format!("all was as it should be {seconds:.1} s after {what}, more than {max} s")
        });
        let sizes = [
            ("a server has", self.memory.most_bytes, SERVER_BYTES_MAX),
            ("the servers together have", self.memory.together_bytes, SERVERS_BYTES_MAX),
        ];
        let large = sizes.into_iter().filter(|(_, bytes, max)| bytes > max);
        let large = large
            .map(|(who, bytes, max)| format!("{who} taken {} MiB, more than {} MiB", bytes >> 20, max >> 20));
        late.chain(large).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(mode: FailureMode, started_s: f64) -> FailoverFigures {
        let times = RecoveryTimes {
            elected_s: 2.0,
            reconnected_s: 2.5,
            confirmed_s: 3.0,
            complete_s: 3.5,
            placed_s: 1.9,
        };
        FailoverFigures {
            mode,
            tasks: 300,
            started_s,
            times,
            first_answer_s: Some(1.5),
            probed: PlacementProbes::default(),
            sent_bytes: 7,
            cpu_s: 1.0,
            memory: ServersMemory { most_bytes: 9, together_bytes: 20 },
            connections: 3,
            moved: 10,
            opened: 10,
            wrong: Vec::new(),
        }
    }

    #[test]
    fn the_clock_begins_with_the_new_leader_or_with_the_servers() {
        let warm = figures(FailureMode::Warm, 0.0).outcome(Vec::new(), true).metrics;
        let names = ["time_to_complete_s", "from_kill_s", "election_s", "first_placement_s", "tasks_per_s"];
        assert_eq!(names.map(|name| warm[name]), [1.5, 3.5, 2.0, 0.0, 200.0]);
        let cold = figures(FailureMode::Cold, 0.5).outcome(Vec::new(), true).metrics;
        assert_eq!(names.map(|name| cold[name]), [3.0, 3.5, 1.5, 1.4, 100.0]);
        assert_eq!((cold["first_history_answer_s"], cold["reconnected_s"]), (1.0, 2.0));
    }

    #[test]
    fn only_agents_of_dead_servers_may_connect_again() {
        assert!(figures(FailureMode::Warm, 0.0).outcome(Vec::new(), true).failures.is_empty());
        let moved = FailoverFigures { opened: 11, ..figures(FailureMode::Warm, 0.0) };
        let expected = "agents have opened 11 sessions, and dead servers had 10";
        assert_eq!(moved.outcome(Vec::new(), true).failures, [expected]);
    }

    #[test]
    fn a_full_run_that_takes_too_long_or_too_much_names_the_aims_that_it_missed() {
        let times = RecoveryTimes {
            elected_s: 2.0,
            reconnected_s: 2.5,
            confirmed_s: 3.0,
            complete_s: 4.25,
            placed_s: 1.9,
        };
        let memory = ServersMemory { most_bytes: 5 << 30, together_bytes: 21 << 30 };
        let late = || FailoverFigures { times, memory, ..figures(FailureMode::Warm, 0.0) };
        let named = [
            "all was as it should be 2.2 s after the election of another leader, more than 2 s",
            "all was as it should be 4.2 s after the kill of the leader, more than 4 s",
            "a server has taken 5120 MiB, more than 4096 MiB",
            "the servers together have taken 21504 MiB, more than 20480 MiB",
        ];
        assert_eq!(late().outcome(Vec::new(), true).failures, named);
        assert_eq!(late().outcome(Vec::new(), false).failures, [""; 0]);
        let cold = |complete_s| {
            let times = RecoveryTimes { complete_s, ..times };
            FailoverFigures { times, ..figures(FailureMode::Cold, 0.5) }.outcome(Vec::new(), true).failures
        };
        assert_eq!(cold(15.5), [""; 0]);
        assert_eq!(
            cold(16.0),
            ["all was as it should be 15.5 s after the start of the servers, more than 15 s"]
        );
    }

    #[test]
    fn memory_is_that_of_each_server_at_its_largest() {
        let used = |rss: &[(usize, u64)]| ServersUsage {
            rss_max_bytes: rss.iter().copied().collect(),
            ..ServersUsage::default()
        };
        let before = used(&[(0, 7), (1, 3), (2, 4)]);
        let memory = used(&[(1, 5), (2, 2)]).memory_with(&before);
        assert_eq!(memory, ServersMemory { most_bytes: 7, together_bytes: 16 });
    }

    #[test]
    fn processors_are_counted_from_the_failure_on() {
        let used = |cpu_s: &[(usize, f64)]| ServersUsage {
            cpu_s: cpu_s.iter().copied().collect(),
            ..ServersUsage::default()
        };
        let (before, after) = (used(&[(0, 5.0), (1, 4.0)]), used(&[(1, 6.0)]));
        assert_eq!(after.cpu_s_since(&before, FailureMode::Warm), 2.0);
        assert_eq!(after.cpu_s_since(&before, FailureMode::Cold), 6.0);
    }
}

//! The metrics of one attack, and whether they keep within their bounds.

use std::{collections::BTreeMap, fmt};

use super::{attacks::AttackResult, client::ClientReport, follower_log::FollowSummary, memory::MemorySeries};
use crate::{
    record::{Plot, PlotLine, percentile},
    run::{Metric, RunOutcome},
};

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// What is measured: of each attack, and of the one on followers of the event stream.
pub(super) const METRICS: &[Metric] = &[
    metric("rss_above_idle_bytes", "B"),
    metric("rss_left_bytes", "B"),
    metric("given_back_s", "s"),
    metric("well_behaved_ms_p50", "ms"),
    metric("well_behaved_ms_p99", "ms"),
    metric("well_behaved_ms_max", "ms"),
    metric("well_behaved_requests", "1"),
    metric("well_behaved_failed", "1"),
    metric("followers_lag_ms_p50", "ms"),
    metric("followers_lag_ms_p99", "ms"),
    metric("followers_lag_ms_max", "ms"),
    metric("followers_told", "1"),
    metric("stuck_read_all", "1"),
    metric("stuck_resumed", "1"),
];

/// The most that a server may hold above what it held before.
const ABOVE_IDLE_BYTES_MAX: u64 = 256 << 20;
/// The most that one in a hundred requests of a client that behaves well may wait.
const P99_MS_MAX: f64 = 100.0;
/// The most that one in a hundred changes may take to a follower that reads.
const LAG_P99_MS_MAX: f64 = 1_000.0;

/// What an attack has shown.
#[derive(Debug)]
pub(super) struct AttackFigures {
    pub done: AttackResult,
    pub memory: MemorySeries,
    /// Seconds from the end of the attack until the memory was given back.
    pub given_back_s: Option<f64>,
    pub report: ClientReport,
}

impl AttackFigures {
    fn waited_ms(&self) -> Vec<f64> {
        let mut waited_ms = self.report.waited_ms.clone();
        waited_ms.sort_by(f64::total_cmp);
        waited_ms
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let waited_ms = self.waited_ms();
        let found = [
            ("rss_above_idle_bytes", Some(self.memory.above_idle_bytes() as f64)),
            ("rss_left_bytes", Some(self.memory.left_bytes() as f64)),
            ("given_back_s", self.given_back_s),
            ("well_behaved_ms_p50", percentile(&waited_ms, 0.5)),
            ("well_behaved_ms_p99", percentile(&waited_ms, 0.99)),
            ("well_behaved_ms_max", percentile(&waited_ms, 1.0)),
            ("well_behaved_requests", Some(waited_ms.len() as f64)),
            ("well_behaved_failed", Some(self.report.failed as f64)),
        ];
        let found = found.into_iter().chain(self.done.followed.iter().flat_map(of_followers));
        found.filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// What may not be; times count only where `timed` says so.
    fn failures(&self, timed: bool) -> Vec<String> {
        let mut failures = Vec::new();
        if self.memory.above_idle_bytes() > ABOVE_IDLE_BYTES_MAX {
            failures.push(format!("{} MiB above idle", self.memory.above_idle_bytes() >> 20));
        }
        if self.given_back_s.is_none() {
            failures.push(format!("{} MiB are not given back", self.memory.left_bytes() >> 20));
        }
        if let (true, Some(p99_ms)) = (timed, percentile(&self.waited_ms(), 0.99))
            && p99_ms > P99_MS_MAX
        {
            failures.push(format!("a client that behaves well waits {p99_ms:.0} ms (99th percentile)"));
        }
        if let Some(first) = &self.report.first_failure {
            failures.push(format!("{} of its requests failed, the first: {first}", self.report.failed));
        }
        if let Some(followed) = &self.done.followed {
            let lag_ms = percentile(&followed.lags_ms, 0.99).filter(|ms| timed && *ms > LAG_P99_MS_MAX);
            failures.extend(
                lag_ms.map(|ms| {
                    format!("followers that read hear of a change {ms:.0} ms late (99th percentile)")
                }),
            );
            failures.extend(followed.wrong.iter().cloned());
        }
        failures
    }
}

/// What was measured of followers of the event stream.
fn of_followers(followed: &FollowSummary) -> [(&'static str, Option<f64>); 6] {
    let lags_ms = &followed.lags_ms;
    [
        ("followers_lag_ms_p50", percentile(lags_ms, 0.5)),
        ("followers_lag_ms_p99", percentile(lags_ms, 0.99)),
        ("followers_lag_ms_max", percentile(lags_ms, 1.0)),
        ("followers_told", Some(lags_ms.len() as f64)),
        ("stuck_read_all", Some(followed.stuck_read_all.into())),
        ("stuck_resumed", Some(followed.stuck_resumed.into())),
    ]
}

impl fmt::Display for AttackFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waited_ms = self.waited_ms();
        let given_back = self.given_back_s.map_or_else(|| "never".to_owned(), |s| format!("after {s:.1} s"));
        write!(
            f,
            "  {}: {} MiB above idle, given back {given_back} ({} MiB left); well-behaved client: p99 {:.1} ms, {} of {} failed",
            self.done.note,
            self.memory.above_idle_bytes() >> 20,
            self.memory.left_bytes() >> 20,
            percentile(&waited_ms, 0.99).unwrap_or_default(),
            self.report.failed,
            waited_ms.len(),
        )
    }
}

/// Adds an attack to the outcome.
pub(super) fn add(outcome: &mut RunOutcome, name: &str, figures: &AttackFigures, timed: bool) {
    outcome.variants.insert(name.to_owned(), figures.metrics());
    outcome.notes.push(format!("{name}: {}", figures.done.note));
    outcome.failures.extend(figures.failures(timed).into_iter().map(|failure| format!("{name}: {failure}")));
    if outcome.series.plots.is_empty() {
        outcome.series.plots.push(Plot {
            title: "The server's memory".to_owned(),
            x: "seconds since the begin of the attack".to_owned(),
            y: "MiB above idle".to_owned(),
            ..Plot::default()
        });
    }
    let line = PlotLine::measured(name, figures.memory.points.clone());
    outcome.series.plots[0].lines.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(followed: FollowSummary) -> AttackFigures {
        let done = AttackResult { note: "all was done".to_owned(), followed: Some(followed) };
        AttackFigures {
            done,
            memory: MemorySeries::begin(0),
            given_back_s: Some(0.1),
            report: ClientReport::default(),
        }
    }

    #[test]
    fn followers_that_hear_late_fail_a_run_and_those_that_miss_something_every_run() {
        let well = || FollowSummary {
            lags_ms: vec![1.0, 2.0, 900.0],
            stuck_read_all: 3,
            ..FollowSummary::default()
        };
        let metrics = figures(well()).metrics();
        assert_eq!((metrics["followers_lag_ms_p99"], metrics["followers_told"]), (900.0, 3.0));
        assert_eq!((metrics["stuck_read_all"], metrics["stuck_resumed"]), (3.0, 0.0));
        assert_eq!(figures(well()).failures(true), [""; 0]);
        let late = figures(FollowSummary { lags_ms: vec![1.0, 1_001.0], ..well() });
        assert_eq!(
            late.failures(true),
            ["followers that read hear of a change 1001 ms late (99th percentile)"]
        );
        assert_eq!(late.failures(false), [""; 0]);
        let gap = figures(FollowSummary { wrong: vec!["one has missed something".to_owned()], ..well() });
        assert_eq!(gap.failures(false), ["one has missed something"]);
    }
}

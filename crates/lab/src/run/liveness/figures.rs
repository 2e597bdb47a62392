//! The metrics of `liveness`, and whether they keep within their bounds.

use std::collections::BTreeMap;

use super::memory::ServerMemory;
use crate::{
    record::{Plot, PlotLine},
    run::{Metric, RunOutcome},
};

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// The metrics in `result.json`, with their units.
pub(super) const METRICS: &[Metric] = &[
    metric("detected_s_max", "s"),
    metric("detected_in_election_s_max", "s"),
    metric("falsely_down", "1"),
    metric("watched_s", "s"),
    metric("writes_done", "1"),
    metric("writes_refused", "1"),
    metric("vanished_down_s_max", "s"),
    metric("replaced_s", "s"),
    metric("ready_again_s", "s"),
    metric("placing_again_s", "s"),
    metric("leader_changes", "1"),
    metric("memory_ratio_max", "1"),
    metric("server_rss_max_bytes", "B"),
];

/// The longest until a silent node is reported down, and one that fell silent just before an election: whoever leads then
/// gives all
/// agents the time of five heartbeats, 45 s, to reach it.
const DETECTED_S_MAX: f64 = 30.0;
const DETECTED_IN_ELECTION_S_MAX: f64 = 60.0;
/// The longest until work is placed on all nodes that came back.
const PLACING_S_MAX: f64 = 60.0;
/// How many times the memory that it had before a server may take.
const MEMORY_RATIO_MAX: f64 = 2.0;
/// So much more where servers have so little that it is of no account.
const SPARE_BYTES: u64 = 64 << 20;
/// Nodes that are named, for people.
const NAMED_MAX: usize = 10;

/// What it has shown.
#[derive(Debug, Default)]
pub(super) struct LivenessFigures {
    /// After how many seconds each silent node was reported down, none for those that were not; and of those that fell silent
    /// before another leader was elected.
    pub silent: Vec<Option<f64>>,
    pub silent_in_election: Vec<Option<f64>>,
    /// The numbers of nodes that were reported down and were not.
    pub falsely_down: Vec<u32>,
    /// For how long changes went on beside.
    pub watched_s: f64,
    /// How many writes were done, and how many were not.
    pub writes: (u64, u64),
    pub returned: ReturnFigures,
    /// What should not have been, for people.
    pub wrong: Vec<String>,
}

/// What a part of all nodes has met with that went away and came back.
#[derive(Debug, Default)]
pub(super) struct ReturnFigures {
    /// After how many seconds each was reported down.
    pub down: Vec<Option<f64>>,
    /// Until all that ran on them ran elsewhere.
    pub replaced_s: f64,
    /// From their return until all were reported ready, and ran what was registered then.
    pub ready_s: f64,
    pub placing_s: f64,
    pub leader_changes: u32,
    /// Memory of each server.
    pub memory: Vec<ServerMemory>,
}

impl ServerMemory {
    fn ratio(&self) -> f64 {
        self.most_bytes as f64 / (self.before_bytes as f64).max(1.0)
    }
}

impl LivenessFigures {
    /// As a result; `timed` says whether times may be too long, and small servers too large.
    pub fn outcome(&self, timed: bool) -> RunOutcome {
        let notes = [
            "a node is silent when it says nothing and keeps its connection, and has vanished when that is gone, too; times run until a \
             client of another server than the one that is killed is told by the event stream",
            "detected_in_election_s_max is of nodes that fall silent a second before the leader is killed: the next one gives all \
             agents time to be heard before it judges any",
        ];
        let mut outcome = RunOutcome {
            metrics: self.metrics(),
            notes: notes.map(str::to_owned).into(),
            failures: self.failures(timed),
            ..RunOutcome::default()
        };
        let lines = (1..).zip(&self.returned.memory).map(|(number, server): (u32, _)| {
            PlotLine::measured(format!("server {number}"), server.points.clone())
        });
        outcome.series.plots.push(Plot {
            title: "Memory while nodes vanish and come back".to_owned(),
            x: "seconds since they vanished".to_owned(),
            y: "MB".to_owned(),
            lines: lines.collect(),
            groups: Vec::new(),
        });
        outcome
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let Self { returned, writes: (done, refused), .. } = self;
        let ratios = returned.memory.iter().map(ServerMemory::ratio);
        let most_bytes = returned.memory.iter().map(|server| server.most_bytes).max();
        let found = [
            ("detected_s_max", last(&self.silent)),
            ("detected_in_election_s_max", last(&self.silent_in_election)),
            ("falsely_down", Some(self.falsely_down.len() as f64)),
            ("watched_s", Some(self.watched_s)),
            ("writes_done", Some(*done as f64)),
            ("writes_refused", Some(*refused as f64)),
            ("vanished_down_s_max", last(&returned.down)),
            ("replaced_s", Some(returned.replaced_s)),
            ("ready_again_s", Some(returned.ready_s)),
            ("placing_again_s", Some(returned.placing_s)),
            ("leader_changes", Some(returned.leader_changes.into())),
            ("memory_ratio_max", ratios.reduce(f64::max)),
            ("server_rss_max_bytes", most_bytes.map(|bytes| bytes as f64)),
        ];
        found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    fn failures(&self, timed: bool) -> Vec<String> {
        let Self { returned, .. } = self;
        let mut failures = Vec::new();
        for (what, down) in [
            ("fell silent", &self.silent),
            ("fell silent before another leader was elected", &self.silent_in_election),
            ("vanished", &returned.down),
        ] {
            let missing = down.iter().filter(|after| after.is_none()).count();
            let message =
                || format!("{missing} of {} nodes that {what} were never reported down", down.len());
            failures.extend((missing > 0).then(message));
        }
        if !self.falsely_down.is_empty() {
            let named: Vec<u32> = self.falsely_down.iter().copied().take(NAMED_MAX).collect();
            let count = self.falsely_down.len();
            failures.push(format!("{count} nodes were reported down that were not, such as {named:?}"));
        }
        if returned.leader_changes > 0 {
            let changes = returned.leader_changes;
            failures.push(format!("the leader changed {changes} times while nodes vanished and came back"));
        }
        failures.extend(self.late().into_iter().filter(|_| timed));
        let spare_bytes = if timed { 0 } else { SPARE_BYTES };
        let large = returned.memory.iter().filter(|server| {
            server.most_bytes.saturating_sub(spare_bytes) as f64
                > server.before_bytes as f64 * MEMORY_RATIO_MAX
        });
        failures.extend(large.map(|server| {
            format!(
                "a server took {} MiB when nodes vanished and came back, {:.1} times the {} MiB before",
                server.most_bytes >> 20,
                server.ratio(),
                server.before_bytes >> 20
            )
        }));
        failures.extend(self.wrong.iter().cloned());
        failures
    }

    /// What took too long.
    fn late(&self) -> Vec<String> {
        let times = [
            ("a silent node was reported down after", last(&self.silent), DETECTED_S_MAX),
            (
                "a node that fell silent before another leader was elected was reported down after",
                last(&self.silent_in_election),
                DETECTED_IN_ELECTION_S_MAX,
            ),
            (
                "work was placed on all nodes that came back after",
                Some(self.returned.placing_s),
                PLACING_S_MAX,
            ),
        ];
        let late = times.into_iter().filter_map(|(what, seconds, max)| Some((what, seconds?, max)));
        let late = late.filter(|(_, seconds, max)| seconds > max);
        late.map(|(what, seconds, max)| format!("{what} {seconds:.1} s, more than {max} s")).collect()
    }
}

/// The longest of some times; none where there is none.
fn last(after: &[Option<f64>]) -> Option<f64> {
    after.iter().flatten().copied().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(before_mib: u64, most_mib: u64) -> ServerMemory {
        ServerMemory { before_bytes: before_mib << 20, most_bytes: most_mib << 20, points: Vec::new() }
    }

    fn well() -> LivenessFigures {
        LivenessFigures {
            silent: vec![Some(27.0), Some(28.0)],
            silent_in_election: vec![Some(52.0)],
            watched_s: 90.0,
            writes: (1_000, 3),
            returned: ReturnFigures {
                down: vec![Some(27.5)],
                replaced_s: 31.0,
                ready_s: 8.0,
                placing_s: 9.0,
                leader_changes: 0,
                memory: vec![server(400, 500), server(300, 590)],
            },
            ..LivenessFigures::default()
        }
    }

    #[test]
    fn what_is_found_soon_and_comes_back_soon_is_well() {
        let outcome = well().outcome(true);
        assert_eq!(outcome.failures, [""; 0]);
        let names = ["detected_s_max", "detected_in_election_s_max", "falsely_down", "placing_again_s"];
        assert_eq!(names.map(|name| outcome.metrics[name]), [28.0, 52.0, 0.0, 9.0]);
        assert!((outcome.metrics["memory_ratio_max"] - 590.0 / 300.0).abs() < 1e-9);
        assert_eq!(outcome.series.plots[0].lines.len(), 2);
    }

    #[test]
    fn wrong_states_fail_a_run_of_any_scale() {
        let mut wrong = well();
        wrong.silent.push(None);
        wrong.silent_in_election = vec![None];
        wrong.returned.down.push(None);
        wrong.falsely_down = vec![4, 9];
        wrong.returned.leader_changes = 1;
        wrong.wrong.push("server 2 lists too much".to_owned());
        let expected = [
            "1 of 3 nodes that fell silent were never reported down",
            "1 of 1 nodes that fell silent before another leader was elected were never reported down",
            "1 of 2 nodes that vanished were never reported down",
            "2 nodes were reported down that were not, such as [4, 9]",
            "the leader changed 1 times while nodes vanished and came back",
            "server 2 lists too much",
        ];
        assert_eq!(wrong.failures(false), expected);
        assert_eq!(wrong.failures(true), expected);
    }

    #[test]
    fn times_fail_a_full_run_and_so_does_a_little_memory() {
        let mut slow = well();
        slow.silent[0] = Some(31.0);
        slow.silent_in_election = vec![Some(61.0)];
        slow.returned.placing_s = 60.5;
        slow.returned.memory[1] = server(300, 620);
        let expected = [
            "a silent node was reported down after 31.0 s, more than 30 s",
            "a node that fell silent before another leader was elected was reported down after 61.0 s, more than 60 s",
            "work was placed on all nodes that came back after 60.5 s, more than 60 s",
            "a server took 620 MiB when nodes vanished and came back, 2.1 times the 300 MiB before",
        ];
        assert_eq!(slow.failures(true), expected);
        assert_eq!(slow.failures(false), [""; 0]);
        slow.returned.memory[1] = server(300, 700);
        assert_eq!(slow.failures(false).len(), 1, "so much is too much at any scale");
    }
}

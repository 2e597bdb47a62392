//! The random behaviour of simulated nodes and their tasks: delays, failures and outages. All of it follows from one seed, the node's
//! number, and the number of the task's start.

use std::{str::FromStr, time::Duration};

use berth_agent::lifecycle::TaskRef;

use super::setting::{DurationRange, SettingError, read_pairs, read_share};
use crate::random::{mix, unit};

/// How nodes and tasks behave; by default every node stays, and a task does what its job configures.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Behaviour {
    /// The behaviour of each start of a task.
    pub tasks: TaskBehaviour,
    /// The connection breaks, and comes back; what runs, runs on.
    pub flapping: Outages,
    /// The node sends nothing, heartbeats included, and keeps its connection and its tasks.
    pub silence: Outages,
    /// The machine restarts: another boot id, and no task lives.
    pub reboots: Outages,
}

/// What comes on top of a mock task's own settings.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TaskBehaviour {
    /// Delay before a start reports anything.
    pub start_delay: DurationRange,
    /// How many events a task then reports before it runs; the same number for each.
    pub events: u16,
    /// Time between two of these events.
    pub event_gap: DurationRange,
    /// Which share of the starts fail: such a task runs, and exits with code 1.
    pub failure_rate: f64,
    /// How long it runs until then, unless it ends before by itself.
    pub failure_after: DurationRange,
}

/// Recurring outages of some nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outages {
    /// The share of the nodes that have them.
    pub share: f64,
    /// From the end of one to the begin of the next.
    pub every: DurationRange,
    /// How long one lasts.
    pub lasts: DurationRange,
}

impl Default for Outages {
    fn default() -> Self {
        let seconds = |min, max| DurationRange::new(Duration::from_secs(min), Duration::from_secs(max));
        Self { share: 0.0, every: seconds(60, 120), lasts: seconds(5, 15) }
    }
}

impl FromStr for Outages {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let mut outages = Self { share: 1.0, ..Self::default() };
        read_pairs(text, "share=0.01,every=1m..2m,lasts=5s..15s", |key, value| {
            match key {
                "share" => outages.share = read_share(key, value)?,
                "every" => outages.every = value.parse()?,
                "lasts" => outages.lasts = value.parse()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(outages)
    }
}

impl Outages {
    /// Those of the node that `seed` stands for, if it is among the share.
    pub(super) fn of(&self, seed: u64) -> Option<OutageSequence> {
        (unit(mix(seed, 0)) < self.share).then_some(OutageSequence { outages: *self, seed, count: 0 })
    }
}

/// The outages of one node, one after the other.
#[derive(Debug)]
pub(super) struct OutageSequence {
    outages: Outages,
    seed: u64,
    count: u64,
}

impl OutageSequence {
    /// The next one: how long until it begins, and how long it lasts, both in nanoseconds.
    pub fn next(&mut self) -> (u64, u64) {
        self.count += 2;
        let (before, during) = (mix(self.seed, self.count), mix(self.seed, self.count + 1));
        (self.outages.every.draw_ns(before), self.outages.lasts.draw_ns(during))
    }
}

/// The random part of one start of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartOutcome {
    seed: u64,
    pub delay_ns: u64,
    pub events: u16,
    /// How long it runs until it fails, should it not have ended before.
    pub fails_after_ns: Option<u64>,
}

impl TaskBehaviour {
    /// That of a start on the node that `seed` stands for.
    pub(super) fn outcome(&self, seed: u64, of: TaskRef) -> StartOutcome {
        let (high, low) = of.alloc.0.split_at(8);
        let half = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        let which = u64::from(of.task) << 32 | u64::from(of.attempt);
        let seed = [half(high), half(low), which].into_iter().fold(seed, mix);
        let fails = unit(mix(seed, 1)) < self.failure_rate;
        StartOutcome {
            seed,
            delay_ns: self.start_delay.draw_ns(mix(seed, 0)),
            events: self.events,
            fails_after_ns: fails.then(|| self.failure_after.draw_ns(mix(seed, 2))),
        }
    }

    /// From one event of a start, counted from 0, to what follows it.
    pub(super) fn gap_ns(&self, outcome: &StartOutcome, event: u16) -> u64 {
        self.event_gap.draw_ns(mix(outcome.seed, 3 + u64::from(event)))
    }
}

#[cfg(test)]
mod tests {
    use berth_api::agent::AllocId;

    use super::*;

    #[test]
    fn outages_are_read() {
        let outages: Outages = "share=0.25,lasts=1s".parse().unwrap();
        assert_eq!((outages.share, outages.every), (0.25, Outages::default().every));
        assert_eq!("every=1s".parse::<Outages>().unwrap().share, 1.0);
        let wrong =
            ["share=2", "often", "every=2"].map(|text| text.parse::<Outages>().unwrap_err().to_string());
        assert_eq!(
            wrong,
            [
                "share: 2 is not a share between 0 and 1",
                "there is no \"often\" here: write share=0.01,every=1m..2m,lasts=5s..15s",
                "\"2\" is not a length of time such as 500ms, 10s or 2m",
            ]
        );
    }

    #[test]
    fn a_share_of_the_nodes_meets_with_outages() {
        let outages: Outages = "share=0.1,every=1s..3s,lasts=1s".parse().unwrap();
        let mut met: Vec<_> = (0..10_000).filter_map(|number| outages.of(mix(9, number))).collect();
        assert!((900..1_100).contains(&met.len()), "{}", met.len());
        let spans: Vec<_> = (0..3).map(|_| met[0].next()).collect();
        assert!(
            spans
                .iter()
                .all(|(every, lasts)| (1_000_000_000..3_000_000_000).contains(every)
                    && *lasts == 1_000_000_000)
        );
        assert_ne!(spans[0], spans[1]);
    }

    #[test]
    fn each_start_has_a_fortune_of_its_own() {
        let tasks = TaskBehaviour {
            failure_rate: 0.5,
            start_delay: "1s..2s".parse().unwrap(),
            ..TaskBehaviour::default()
        };
        let start = |attempt| TaskRef { alloc: AllocId([7; 16]), task: 0, attempt };
        let fortunes: Vec<_> = (0..1_000).map(|attempt| tasks.outcome(1, start(attempt))).collect();
        let failing = fortunes.iter().filter(|outcome| outcome.fails_after_ns.is_some()).count();
        assert!((450..550).contains(&failing), "{failing}");
        assert_ne!(fortunes[0].delay_ns, fortunes[1].delay_ns);
        assert_eq!(tasks.outcome(1, start(5)).delay_ns, fortunes[5].delay_ns);
    }
}

//! Many simulations, on several threads; each has one thread to itself.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use crate::{
    bugs::Bug,
    truth::{COMMANDS_MIN, Counts},
    world::{self, Report, Settings},
};

/// What many simulations came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many were run.
    pub runs: u64,
    /// Sums over all runs.
    pub counts: Counts,
    /// Seeds that broke a rule, in order, and which.
    pub violations: Vec<(u64, String)>,
    /// Added up, in nanoseconds.
    pub simulated_ns: u64,
    /// The least that one of them had.
    pub least: Option<RunMinimum>,
    /// How long after people had stopped asking everything was as it should be, in nanoseconds, and in which seed.
    pub settled: Vec<(u64, u64)>,
    /// Seeds that broke no rule and had less than [`RunMinimum::WANTED`], in order, and what they had.
    pub short: Vec<(u64, RunMinimum)>,
}

/// What a simulation is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunMinimum {
    /// How long it was, in simulated nanoseconds.
    pub simulated_ns: u64,
    /// Commands that were applied.
    pub commands: u64,
    /// Faults that struck.
    pub faults: u64,
}

impl RunMinimum {
    /// What a simulation is to have: one with less proves little.
    pub const WANTED: Self = Self { simulated_ns: 60_000_000_000, commands: COMMANDS_MIN as u64, faults: 10 };

    fn is_enough(&self) -> bool {
        self.and(Self::WANTED) == Self::WANTED
    }

    fn of(report: &Report) -> Self {
        let count = |what| report.counts.get(what).copied().unwrap_or_default();
        let (commands, faults) = (count("commands in the history"), count("faults"));
        Self { simulated_ns: report.simulated_ns, commands, faults }
    }

    fn and(self, other: Self) -> Self {
        Self {
            simulated_ns: self.simulated_ns.min(other.simulated_ns),
            commands: self.commands.min(other.commands),
            faults: self.faults.min(other.faults),
        }
    }
}

impl Summary {
    /// What a simulation had; `to_its_end` when nothing has cut it short.
    fn note(&mut self, seed: u64, had: RunMinimum, to_its_end: bool) {
        self.least = Some(self.least.map_or(had, |before| before.and(had)));
        if to_its_end && !had.is_enough() {
            self.short.push((seed, had));
        }
    }
}

/// Runs the simulations of some seeds.
pub fn run(settings: &Settings, seeds: Range<u64>, threads: usize) -> Summary {
    run_until(settings, seeds, threads, |_| false)
}

/// Runs the simulations of some seeds until its bug is found, by a rule that it breaks.
pub fn find(bug: Bug, settings: &Settings, seeds: Range<u64>, threads: usize) -> Option<(u64, String)> {
    let settings = Settings { bug: Some(bug), ..settings.clone() };
    let summary = run_until(&settings, seeds, threads, |violation| bug.is_shown_by(violation));
    summary.violations.into_iter().find(|(_, violation)| bug.is_shown_by(violation))
}

fn run_until(
    settings: &Settings,
    seeds: Range<u64>,
    threads: usize,
    is_enough: impl Fn(&str) -> bool + Sync,
) -> Summary {
    let (next, found) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let summary = Mutex::new(Summary::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= seeds.end || found.load(SeqCst) {
                return;
            }
            let settings = Settings { seed, ..settings.clone() };
            let outcome = catch_unwind(AssertUnwindSafe(|| world::run(&settings)));
            let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
            summary.runs += 1;
            let violation = match outcome {
                Ok(report) => {
                    let least = RunMinimum::of(&report);
                    summary.note(seed, least, report.violation.is_none() && settings.without.is_empty());
                    summary.simulated_ns += report.simulated_ns;
                    summary.settled.extend(report.settled_ns.map(|settled_ns| (settled_ns, seed)));
                    for (what, count) in report.counts {
                        *summary.counts.entry(what).or_default() += count;
                    }
                    report.violation.map(|violation| violation.to_string())
                }
                Err(_) => Some("it panicked".to_owned()),
            };
            if let Some(violation) = violation {
                found.fetch_or(is_enough(&violation), SeqCst);
                summary.violations.push((seed, violation));
            }
        }
    };
    std::thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.violations.sort();
    summary.short.sort_by_key(|(seed, _)| *seed);
    summary.settled.sort_unstable();
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_with_too_few_of_anything_is_not_enough() {
        let RunMinimum { simulated_ns, commands, faults } = RunMinimum::WANTED;
        assert!(RunMinimum::WANTED.is_enough());
        assert!(RunMinimum { commands: commands + 1, ..RunMinimum::WANTED }.is_enough());
        for less in [
            RunMinimum { simulated_ns: simulated_ns - 1, ..RunMinimum::WANTED },
            RunMinimum { commands: commands - 1, ..RunMinimum::WANTED },
            RunMinimum { faults: faults - 1, ..RunMinimum::WANTED },
        ] {
            assert!(!less.is_enough(), "{less:?}");
        }
    }

    /// Without its faults a simulation proves nothing about them.
    #[test]
    fn a_seed_that_was_too_short_is_named() {
        let mut summary = Summary::default();
        let few = RunMinimum { faults: 3, ..RunMinimum::WANTED };
        summary.note(7, few, true);
        summary.note(8, few, false);
        summary.note(9, RunMinimum::WANTED, true);
        assert_eq!(summary.short, [(7, few)], "one that has broken a rule ended before its time");
        assert_eq!(summary.least, Some(few));
    }
}

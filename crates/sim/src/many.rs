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
    truth::Counts,
    world::{self, Report, Settings},
};

/// What many simulations came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many were run.
    pub runs: u64,
    /// Added up.
    pub counts: Counts,
    /// Seeds that broke a rule, in order, and which.
    pub violations: Vec<(u64, String)>,
    /// Added up, in nanoseconds.
    pub simulated_ns: u64,
    /// The least that one of them had.
    pub least: Option<Least>,
}

/// What a simulation is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Least {
    /// How long it was, in simulated nanoseconds.
    pub simulated_ns: u64,
    /// Commands that were applied.
    pub commands: u64,
    /// Faults that struck.
    pub faults: u64,
}

impl Least {
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
                    let least = Least::of(&report);
                    summary.least = Some(summary.least.map_or(least, |before| before.and(least)));
                    summary.simulated_ns += report.simulated_ns;
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
    summary
}

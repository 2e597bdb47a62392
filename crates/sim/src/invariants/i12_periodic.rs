//! I12: a periodic job runs at each time at which it is due, and never twice for the same.

use std::collections::BTreeMap;

use berth_model::{JobKey, Timestamp, command::Command, store::Store};

use super::{Check, history::Step};

/// How late a run may be when nothing is wrong.
const LATE_NS: u64 = 5_000_000_000;

/// The last run of each job.
#[derive(Default)]
pub struct Launches(BTreeMap<JobKey, Timestamp>);

impl Launches {
    pub fn on_entry(&mut self, _: &Store, step: &Step) -> Check {
        for (command, outcome) in step.entry.commands.iter().zip(&step.applied.outcomes) {
            match command {
                Command::LaunchJob(launch) if outcome.is_ok() => {
                    let last = self.0.insert(launch.job.clone(), launch.at);
                    if last.is_some_and(|last| launch.at <= last) {
                        let what = format!("job {} ran for {:?} after {last:?}", launch.job, launch.at);
                        return Err(("I12 periodic runs are made once", what));
                    }
                }
                // Another state: what was run since it was saved is not known there.
                Command::RestorePart(_) => self.0.clear(),
                Command::DeregisterJob(gone) if gone.purge => drop(self.0.remove(&gone.job)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Nothing is due that was not dealt with.
    pub fn at_rest(&self, store: &Store) -> Check {
        for (_, row) in store.jobs().iter() {
            if let Some(due) = row.due().filter(|due| due.0 + LATE_NS < store.at().0) {
                let what = format!("job {} was due at {due:?}, it is {:?}", row.key, store.at());
                return Err(("I12 periodic runs are made", what));
            }
        }
        Ok(())
    }
}

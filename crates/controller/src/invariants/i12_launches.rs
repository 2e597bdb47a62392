//! I12: a periodic job never runs twice for the same time; and where its runs are not to overlap, only once no other one lives.

use std::collections::BTreeMap;

use berth_model::{
    Index, JobKey, Timestamp,
    command::{Command, Entry},
    event::AppliedEntry,
    store::{JobRow, Store},
};

/// The last run of each job.
#[derive(Debug, Default)]
pub struct Launches(BTreeMap<JobKey, Timestamp>);

impl Launches {
    /// An entry was applied, which led to this state.
    ///
    /// # Errors
    /// What was launched that should not have been.
    pub fn on_entry(&mut self, store: &Store, entry: &Entry, applied: &AppliedEntry) -> Result<(), String> {
        for (command, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            match command {
                Command::LaunchJob(launch) if outcome.is_ok() => {
                    let last = self.0.insert(launch.job.clone(), launch.at);
                    if last.is_some_and(|last| launch.at <= last) {
                        return Err(format!("job {} ran for {:?} after {last:?}", launch.job, launch.at));
                    }
                    // What the job said when it was launched is no longer there where the same entry changes it.
                    let changes = |command: &Command| matches!(command, Command::RegisterJob(register) if register.job.key == launch.job);
                    if !entry.commands.iter().any(changes) {
                        overlaps(store, &launch.job, launch.at, entry.index)?;
                    }
                }
                // Another state: what was run since it was saved is not known there.
                Command::RestorePart(_) => self.0.clear(),
                Command::DeregisterJob(stop) if stop.purge => drop(self.0.remove(&stop.job)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A run that was made now although runs of its job are not to overlap, and another one lived already.
fn overlaps(store: &Store, key: &JobKey, at: Timestamp, now: Index) -> Result<(), String> {
    let row = store.job(key).filter(|row| row.job().clock().is_some_and(|clock| clock.prohibit_overlap));
    let Some(row) = row else { return Ok(()) };
    let launched = row.job().run_at(at).key;
    if store.job(&launched).is_none_or(|run| run.create_index != now) {
        return Ok(());
    }
    let prefix = format!("{}/periodic-", key.id);
    let is_other = |run: &&JobRow| {
        run.key.namespace == key.namespace && run.key.id.starts_with(&prefix) && run.key != launched
    };
    let mut others = store.jobs().iter().map(|(_, run)| run).filter(is_other);
    match others.find(|run| run.live > 0 && run.create_index < now) {
        None => Ok(()),
        Some(other) => Err(format!("job {launched} was made while {} lived", other.key)),
    }
}

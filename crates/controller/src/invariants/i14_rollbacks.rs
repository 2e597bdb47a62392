//! I14: a failed deployment that is to be undone brings back the last stable version, byte for byte.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    DeploymentId, JobKey,
    command::{Command, Entry},
    deployment::{DeploymentStatus, SetDeployment},
    event::{AppliedEntry, StateChange},
    job::Job,
    store::Store,
};

/// What is remembered of each job.
#[derive(Debug, Default)]
pub struct Rollbacks(BTreeMap<JobKey, VersionHistory>);

/// The versions of one job, as they were when each was the newest.
#[derive(Debug, Default)]
struct VersionHistory {
    newest: u64,
    all: BTreeMap<u64, Job>,
    /// Those whose deployments were successful.
    stable: BTreeSet<u64>,
}

/// A stopped version is the same one, and runs again once it is brought back.
fn running(job: &Job) -> Job {
    Job { stop: false, ..job.clone() }
}

impl Rollbacks {
    /// An entry was applied, which led to this state.
    ///
    /// # Errors
    /// What was not brought back.
    pub fn on_entry(&mut self, store: &Store, entry: &Entry, applied: &AppliedEntry) -> Result<(), String> {
        for change in &applied.events {
            match change {
                StateChange::Restored => self.0.clear(),
                StateChange::JobCollected(_, key) | StateChange::JobPurged(_, key) => {
                    drop(self.0.remove(key))
                }
                _ => {}
            }
        }
        for (command, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            if let (Command::SetDeployment(set), Ok(())) = (command, outcome) {
                self.on_deployment(store, set)?;
            }
        }
        for change in &applied.events {
            let (StateChange::JobRegistered(slot) | StateChange::JobDeregistered(slot)) = change else {
                continue;
            };
            let Some(row) = store.jobs().row(*slot) else { continue };
            let current = row.current();
            let known = self.0.entry(row.key.clone()).or_default();
            known.newest = current.version;
            known.all.insert(current.version, running(&current.job));
        }
        Ok(())
    }

    fn on_deployment(&mut self, store: &Store, set: &SetDeployment) -> Result<(), String> {
        let Some((key, version, undoes)) = of(store, set.id) else { return Ok(()) };
        let (Some(known), Some(row)) = (self.0.get_mut(&key), store.job(&key)) else { return Ok(()) };
        if set.status == DeploymentStatus::Successful {
            known.stable.insert(version);
        }
        if set.status != DeploymentStatus::Failed || !undoes || known.newest != version {
            return Ok(());
        }
        let failed = known.all.get(&version);
        let last = known.stable.range(..version).next_back().and_then(|last| known.all.get(last));
        let Some(last) = last.filter(|last| Some(*last) != failed) else { return Ok(()) };
        // Others may have followed in the same entry.
        let next = row.version(version + 1);
        if next.is_some_and(|next| running(&next.job) == *last) {
            return Ok(());
        }
        let next = next.map(|next| next.version);
        Err(format!("version {version} of {key} has failed, and {next:?} is not the one before it"))
    }
}

/// The job of a deployment, the version that it brings, and whether its failure undoes that.
fn of(store: &Store, id: DeploymentId) -> Option<(JobKey, u64, bool)> {
    let deployment = store.deployments().get(id)?;
    let undoes = deployment.groups.iter().any(|group| group.auto_revert);
    Some((deployment.job.clone(), deployment.job_version, undoes))
}

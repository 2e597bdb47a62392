//! The table of deployments: one for a version of a job, and at most one of a job that is active.

use std::{ops::RangeBounds, sync::Arc};

use imbl::{OrdMap, OrdSet};

use super::{
    digest::{TableDigest, hash_encoded},
    jobs::{JobRow, JobSlot, JobVersion},
};
use crate::{
    deployment::Deployment,
    ids::{DeploymentId, Index, JobKey},
};

/// All deployments.
#[derive(Debug, Clone, Default)]
pub struct Deployments {
    by_id: OrdMap<DeploymentId, Arc<Deployment>>,
    by_age: OrdSet<(Index, DeploymentId)>,
    by_version: OrdMap<(JobKey, u64), DeploymentId>,
    /// Those that may still come to something.
    active: OrdMap<JobSlot, DeploymentId>,
    digest: TableDigest,
    pub(super) modify_index: Index,
}

impl Deployments {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Where the last change of any deployment is.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// A deployment by its id.
    pub fn get(&self, id: DeploymentId) -> Option<&Arc<Deployment>> {
        self.by_id.get(&id)
    }

    /// All deployments, by id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.by_id.values()
    }

    /// The deployments whose ids are in a range, by id.
    pub fn range(
        &self,
        ids: impl RangeBounds<DeploymentId>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.by_id.range(ids).map(|(_, deployment)| deployment)
    }

    /// The deployments that were made in a range of indexes, oldest first; of one index by id.
    pub fn by_age(
        &self,
        ages: impl RangeBounds<(Index, DeploymentId)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.by_age.range(ages).filter_map(|(_, id)| self.get(*id))
    }

    /// Those that may still come to something, by the slots of their jobs.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Deployment>> {
        self.active.values().filter_map(|id| self.get(*id))
    }

    /// The active deployment of a job.
    pub fn active_of(&self, job: JobSlot) -> Option<&Arc<Deployment>> {
        self.get(*self.active.get(&job)?)
    }

    /// The deployment of a version of a job.
    pub fn of_version(&self, job: &JobKey, version: u64) -> Option<&Arc<Deployment>> {
        self.get(*self.by_version.get(&(job.clone(), version))?)
    }

    /// The deployments of a job, oldest first.
    pub fn of_job(&self, job: &JobKey) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        let versions = (job.clone(), 0)..=(job.clone(), u64::MAX);
        self.by_version.range(versions).filter_map(|(_, id)| self.get(*id))
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    /// `job` is where its job is.
    pub(super) fn insert(&mut self, job: JobSlot, deployment: Deployment) {
        let Deployment { id, create_index, .. } = deployment;
        self.digest.add(hash_encoded(b'd', &deployment));
        self.modify_index = self.modify_index.max(deployment.modify_index);
        self.by_age.insert((create_index, id));
        self.by_version.insert((deployment.job.clone(), deployment.job_version), id);
        if deployment.is_active() {
            self.active.insert(job, id);
        }
        self.by_id.insert(id, Arc::new(deployment));
    }

    pub(super) fn update(
        &mut self,
        job: JobSlot,
        id: DeploymentId,
        index: Index,
        change: impl FnOnce(&mut Deployment),
    ) {
        let Some(row) = self.by_id.get_mut(&id) else { return };
        self.digest.remove(hash_encoded(b'd', &**row));
        let deployment = Arc::make_mut(row);
        change(deployment);
        deployment.modify_index = index;
        self.modify_index = index;
        self.digest.add(hash_encoded(b'd', &**row));
        if !row.is_active() && self.active.get(&job) == Some(&id) {
            self.active.remove(&job);
        }
    }

    pub(super) fn remove(&mut self, id: DeploymentId, index: Index) -> Option<Arc<Deployment>> {
        let deployment = self.by_id.remove(&id)?;
        self.digest.remove(hash_encoded(b'd', &*deployment));
        self.by_age.remove(&(deployment.create_index, id));
        self.by_version.remove(&(deployment.job.clone(), deployment.job_version));
        self.modify_index = index;
        Some(deployment)
    }

    /// Nothing of a job is active any more: it is garbage-collected.
    pub(super) fn drop_job(&mut self, job: JobSlot) {
        self.active.remove(&job);
    }
}

impl Deployment {
    /// What its failure goes back to, and the sentence that says so.
    pub fn undone_by(&self, row: &JobRow, why: String) -> (String, Option<u64>) {
        if !self.groups.iter().any(|group| group.auto_revert) {
            return (why, None);
        }
        match row.last_stable() {
            None => (why + " - no stable job version to auto revert to", None),
            Some(JobVersion { version, job, .. }) if job == row.job() => {
                let same = "as current job has same specification";
                (format!("{why} - not rolling back to stable job version {version} {same}"), None)
            }
            Some(JobVersion { version, .. }) => {
                (format!("{why} - rolling back to job version {version}"), Some(*version))
            }
        }
    }
}

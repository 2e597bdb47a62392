//! What has ended and is still why its job places nothing, or nothing yet: it stays when others are garbage-collected.

use super::{AllocRow, JobRow, Store};
use crate::{
    alloc::{ClientStatus, DesiredStatus, StopReason},
    deployment::{Deployment, DeploymentGroup, DeploymentStatus},
    job::{JobType, VersionChange},
};

impl Store {
    /// Whether an allocation may be garbage-collected before its job. A finished one of batch work stays as long as the job: it is
    /// what keeps it from running again. So does one of a system job that has ended by itself, until the job is changed or its
    /// node is gone, and one of a service that has failed, until another is in its place.
    pub fn may_collect(&self, row: &AllocRow) -> bool {
        self.is_no_result(row) && !self.holds_place(row)
    }

    /// Whether an allocation that has ended is why its job places nothing, or nothing yet.
    pub fn holds_place(&self, row: &AllocRow) -> bool {
        self.keeps_node_covered(row) || self.awaits_replacement(row)
    }

    /// Whether an allocation has ended and is no result of batch work.
    pub(super) fn is_no_result(&self, row: &AllocRow) -> bool {
        let job = self.jobs.row(row.job);
        row.is_terminal() && job.is_none_or(|job| !job.job().job_type.runs_to_completion())
    }

    /// Whether an ended allocation is why nothing of its job, which runs on each node, is placed on its node again.
    pub fn keeps_node_covered(&self, row: &AllocRow) -> bool {
        let covers = |job: &JobRow| job.job().job_type.is_per_node() && !job.job().stop && job.covers(row);
        row.ended_by_itself()
            && self.jobs.row(row.job).is_some_and(covers)
            && self.nodes.row(row.node).is_some_and(|node| !node.purged)
    }

    /// Whether an allocation of a service that has ended has its place until another takes it: one that failed, after a delay, or
    /// never, if its policy says so; before a promotion also one that had to go, once there is capacity.
    pub fn awaits_replacement(&self, row: &AllocRow) -> bool {
        if !row.is_terminal() {
            return false;
        }
        let job = self.jobs.row(row.job);
        let Some(job) = job.filter(|job| job.job().job_type == JobType::Service && !job.job().stop) else {
            return false;
        };
        let extra = self.allocs.find(row.id).and_then(|slot| self.allocs.extra(slot));
        let has_failed = row.client == ClientStatus::Failed && row.desired == DesiredStatus::Run;
        let had_to_go = match extra.and_then(|extra| extra.stop_reason) {
            Some(reason) => reason == StopReason::Requested || reason.had_to_go(),
            None => row.client == ClientStatus::Lost,
        };
        let is_replaced = extra.is_some_and(|extra| extra.next.is_some());
        if is_replaced || !(has_failed || had_to_go) || row.job_version < job.begun_with() {
            return false;
        }
        let Some(name) = job.group_of(row).map(|group| &*group.name) else { return false };
        if extra.is_some_and(|extra| extra.canary) && self.awaits_promotion(job, row.job_version, name) {
            return has_failed && self.is_under_way(job, row.job_version);
        }
        if job.job().group(name).is_none_or(|(_, newest)| newest.count == 0) {
            return false;
        }
        // Some may be more than the count asks for: which of them have its places is known to a plan alone. The versions are compared
        // last, as a thousand may have failed.
        let is_of_newest = || job.change_of(row.job_version, row.group) != VersionChange::Replacement;
        self.awaits_promotion(job, job.current().version, name) || has_failed && is_of_newest()
    }

    /// Whether canaries of a group of this version have still to be promoted. Its first plan makes the deployment of the newest one.
    fn awaits_promotion(&self, job: &JobRow, version: u64, group: &str) -> bool {
        match self.deployments.of_version(&job.key, version) {
            Some(deployment) if deployment.status == DeploymentStatus::Successful => false,
            Some(deployment) => deployment.group(group).is_some_and(DeploymentGroup::is_canarying),
            None => {
                let newest = job.job().group(group).filter(|_| version == job.current().version);
                let update = newest.and_then(|(_, group)| group.deployed_by(job.job().job_type));
                update.is_some_and(|update| update.canary > 0)
            }
        }
    }

    /// Whether a deployment that is over may be garbage-collected before its job: nobody asks it any more whether what it has placed
    /// is healthy, or promoted.
    pub fn may_collect_deployment(&self, over: &Deployment) -> bool {
        !self.is_carried(over) && !self.has_unpromoted_canaries(over)
    }

    /// Whether canaries of a deployment are there that were never promoted: without it they would be taken for promoted ones.
    fn has_unpromoted_canaries(&self, over: &Deployment) -> bool {
        let unpromoted = over.groups.iter().filter(|group| group.is_canarying());
        over.status != DeploymentStatus::Successful
            && unpromoted.flat_map(|group| &group.canaries).any(|canary| self.alloc(*canary).is_some())
    }

    /// Whether this version is the newest, and its deployment is not over.
    fn is_under_way(&self, job: &JobRow, version: u64) -> bool {
        let deployment = self.deployments.of_version(&job.key, version);
        version == job.current().version && deployment.is_some_and(|deployment| deployment.is_active())
    }
}

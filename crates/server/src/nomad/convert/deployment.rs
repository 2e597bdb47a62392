//! Deployments.

use berth_api::http::{Deployment, DeploymentState, Time, UnhealthyAlloc};
use berth_model::deployment::{Deployment as Known, DeploymentGroup, UnhealthyAlloc as Unhealthy};

use crate::{access::CallerView, events::DeploymentJob};

/// A deployment.
pub fn deployment(view: &CallerView, of: &Known) -> Deployment {
    deployment_of(view.deployment_job(of), of)
}

/// A deployment, with what is reported of its job.
pub(super) fn deployment_of(job: DeploymentJob, of: &Known) -> Deployment {
    let index = job.version_index;
    Deployment {
        id: of.id.to_string(),
        namespace: of.job.namespace.to_string(),
        job_id: of.job.id.to_string(),
        job_version: of.job_version,
        job_modify_index: index,
        job_spec_modify_index: index,
        job_create_index: of.job_create_index.0,
        is_multiregion: false,
        task_groups: of.groups.iter().map(|group| (group.name.clone(), state(group))).collect(),
        status: of.status.as_str().to_owned(),
        status_description: of.description.clone(),
        eval_priority: job.priority,
        create_index: of.create_index.0,
        modify_index: of.modify_index.0,
        create_time: of.created_at.0,
        modify_time: of.modified_at.0,
    }
}

fn state(group: &DeploymentGroup) -> DeploymentState {
    DeploymentState {
        auto_revert: group.auto_revert,
        auto_promote: group.auto_promote,
        progress_deadline: u64::try_from(group.progress_deadline.as_nanos()).unwrap_or(u64::MAX),
        require_progress_by: Time(group.require_progress_by.0),
        // Clients take a group that was never canaried for one that needs no promotion by its canaries, not by this.
        promoted: group.desired_canaries > 0 && group.promoted,
        placed_canaries: group.canaries.iter().map(ToString::to_string).collect(),
        desired_canaries: group.desired_canaries,
        desired_total: group.desired_total,
        placed_allocs: group.placed,
        healthy_allocs: group.healthy,
        unhealthy_allocs: group.unhealthy,
        last_unhealthy: group.culprit.as_ref().map(unhealthy),
    }
}

fn unhealthy(alloc: &Unhealthy) -> UnhealthyAlloc {
    UnhealthyAlloc { alloc_id: alloc.alloc.to_string(), reason: alloc.message.clone() }
}

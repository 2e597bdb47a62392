//! Deployments.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;

/// How one version of a job takes the place of the one before.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Deployment {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its job's namespace.
    pub namespace: String,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The version of the job that it brings.
    pub job_version: u64,
    /// Where that version was registered.
    pub job_modify_index: u64,
    /// The same index, under Nomad's second name.
    pub job_spec_modify_index: u64,
    /// Where the job was first registered.
    pub job_create_index: u64,
    /// Always false: there is one region.
    pub is_multiregion: bool,
    /// How far each group has come, by name.
    pub task_groups: BTreeMap<String, DeploymentState>,
    /// `running`, `paused`, `successful`, `failed` or `cancelled`.
    pub status: String,
    /// In words, why its status is what it is.
    pub status_description: String,
    /// The priority of its evaluations.
    pub eval_priority: u8,
    /// Where it was made.
    pub create_index: u64,
    /// Where it last changed.
    pub modify_index: u64,
    /// Nanoseconds since the Unix epoch: when it was made.
    pub create_time: u64,
    /// Nanoseconds since the Unix epoch: when it last changed.
    pub modify_time: u64,
}

/// How far a group has come.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeploymentState {
    /// Back to the last stable version when the deployment fails.
    pub auto_revert: bool,
    /// Promoted as soon as all canaries are healthy.
    pub auto_promote: bool,
    /// Nanoseconds in which another allocation must become healthy; 0 for failing at the first unhealthy one.
    pub progress_deadline: u64,
    /// When the next one must have become healthy.
    pub require_progress_by: Time,
    /// Whether old allocations may be replaced.
    pub promoted: bool,
    /// Ids of the canaries.
    pub placed_canaries: Vec<String>,
    /// Canaries that must be healthy before it may be promoted.
    pub desired_canaries: u32,
    /// Allocations that must be healthy in the end.
    pub desired_total: u32,
    /// Allocations that were placed or carried over.
    pub placed_allocs: u32,
    /// Of those that are there, the healthy ones.
    pub healthy_allocs: u32,
    /// How often one of them was found unhealthy.
    pub unhealthy_allocs: u32,
    /// The last one that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_unhealthy: Option<UnhealthyAlloc>,
}

impl DeploymentState {
    /// Whether it has canaries, which wait for their promotion.
    pub fn is_canarying(&self) -> bool {
        self.desired_canaries > 0 && !self.promoted
    }
}

/// An allocation that was found unhealthy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct UnhealthyAlloc {
    /// Its id.
    #[serde(rename = "AllocID")]
    pub alloc_id: String,
    /// Its last task event, or what its agent waited for in vain.
    pub reason: String,
}

/// What an allocation has shown of its health, as part of a deployment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocDeploymentStatus {
    /// None as long as it has shown nothing.
    pub healthy: Option<bool>,
    /// When the log last recorded a change of the allocation.
    pub timestamp: Time,
    /// Whether it stands beside old allocations until its group is promoted.
    pub canary: bool,
    /// Where the log last recorded a change of the allocation.
    pub modify_index: u64,
}

/// What is to be promoted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeploymentPromote {
    /// The deployment; that of the path when empty.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: String,
    /// All groups.
    pub all: bool,
    /// These groups.
    pub groups: Option<Vec<String>>,
}

/// Whether a deployment is to be held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeploymentPause {
    /// The deployment; that of the path when empty.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: String,
    /// False for it to go on.
    pub pause: bool,
}

/// What an operator says of allocations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeploymentAllocHealth {
    /// The deployment; that of the path when empty.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: String,
    /// These are well.
    #[serde(rename = "HealthyAllocationIDs")]
    pub healthy_allocation_ids: Option<Vec<String>>,
    /// These are not.
    #[serde(rename = "UnhealthyAllocationIDs")]
    pub unhealthy_allocation_ids: Option<Vec<String>>,
}

/// What came of a change of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeploymentChanged {
    /// The evaluation that goes on with the job; empty for none.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// Where that was made; 0 for none.
    pub eval_create_index: u64,
    /// Where the deployment was changed.
    pub deployment_modify_index: u64,
    /// The version of the job that takes its place again; none for none.
    pub reverted_job_version: Option<u64>,
    /// Where the change was committed.
    pub index: u64,
    /// Milliseconds since the leader was heard; always 0.
    pub last_contact: u64,
    /// Whether there is a leader.
    pub known_leader: bool,
}

//! Allocations: in lists, and whole.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AllocatedResources, PlacementMetric, TaskResources, TaskState};

/// An allocation in a list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocationStub {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// The evaluation that placed it.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// `JOB.GROUP[INDEX]`.
    pub name: String,
    /// Its job's namespace.
    pub namespace: String,
    /// Where it runs.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// That node's name.
    pub node_name: String,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// That job's type.
    pub job_type: String,
    /// The version of the job that it runs.
    pub job_version: u64,
    /// Its group.
    pub task_group: String,
    /// What it holds, when asked for with `resources=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_resources: Option<AllocatedResources>,
    /// `run` or `stop`.
    pub desired_status: String,
    /// Why, for people.
    pub desired_description: String,
    /// Always empty.
    pub desired_transition: DesiredTransition,
    /// `pending`, `running`, `complete`, `failed` or `lost`.
    pub client_status: String,
    /// Why, for people.
    pub client_description: String,
    /// By task name; none until its agent has told, or with `task_states=false`.
    pub task_states: Option<BTreeMap<String, TaskState>>,
    /// Always none: there are no deployments yet.
    pub deployment_status: Option<Value>,
    /// Always empty.
    #[serde(rename = "FollowupEvalID")]
    pub followup_eval_id: String,
    /// Who replaces it; empty for nobody.
    pub next_allocation: String,
    /// Replacements of failed predecessors.
    pub reschedule_tracker: Option<RescheduleTracker>,
    /// Its placement.
    pub create_index: u64,
    /// Its last change, logged or observed.
    pub modify_index: u64,
    /// When it was placed, nanoseconds.
    pub create_time: u64,
    /// When it last changed, nanoseconds.
    pub modify_time: u64,
}

/// An allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Allocation {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its job's namespace.
    pub namespace: String,
    /// The evaluation that placed it.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// `JOB.GROUP[INDEX]`.
    pub name: String,
    /// Where it runs.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// That node's name.
    pub node_name: String,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The version of its job that it runs, whole; left out of the event stream.
    pub job: Option<Value>,
    /// The version of the job that it runs.
    pub job_version: u64,
    /// Its group.
    pub task_group: String,
    /// All that it holds.
    pub resources: TaskResources,
    /// What its tasks hold, by name.
    pub task_resources: BTreeMap<String, TaskResources>,
    /// What it holds, by task and in common.
    pub allocated_resources: AllocatedResources,
    /// How it came to its node.
    pub metrics: PlacementMetric,
    /// `run` or `stop`.
    pub desired_status: String,
    /// Why, for people.
    pub desired_description: String,
    /// Always empty.
    pub desired_transition: DesiredTransition,
    /// `pending`, `running`, `complete`, `failed` or `lost`.
    pub client_status: String,
    /// Why, for people.
    pub client_description: String,
    /// By task name; none until its agent has told.
    pub task_states: Option<BTreeMap<String, TaskState>>,
    /// Always empty: there are no deployments yet.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: String,
    /// Always none.
    pub deployment_status: Option<Value>,
    /// Always empty.
    #[serde(rename = "FollowupEvalID")]
    pub followup_eval_id: String,
    /// Whom it replaces; empty for nobody.
    pub previous_allocation: String,
    /// Who replaces it; empty for nobody.
    pub next_allocation: String,
    /// Allocations on its node that must end before it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// Replacements of failed predecessors.
    pub reschedule_tracker: Option<RescheduleTracker>,
    /// Its placement.
    pub create_index: u64,
    /// Its last change, logged or observed.
    pub modify_index: u64,
    /// Its last change that is in the log.
    pub alloc_modify_index: u64,
    /// When it was placed, nanoseconds.
    pub create_time: u64,
    /// When it last changed, nanoseconds.
    pub modify_time: u64,
}

/// What an operator wishes of an allocation; kept for clients that read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DesiredTransition {
    /// Move it to another node.
    pub migrate: Option<bool>,
    /// Replace it now.
    pub reschedule: Option<bool>,
}

/// Replacements of failed predecessors that still count.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RescheduleTracker {
    /// Oldest first.
    pub events: Vec<RescheduleEvent>,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RescheduleEvent {
    /// Nanoseconds.
    pub reschedule_time: u64,
    /// Who was replaced, where still known.
    #[serde(rename = "PrevAllocID")]
    pub prev_alloc_id: String,
}

/// The answer to a stop.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocStopped {
    /// The evaluation that acts on it.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// Readers that ask for this index see the change.
    pub index: u64,
}

//! Allocations: in lists, and whole.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AllocDeploymentStatus, AllocatedResources, Job, PlacementMetric, TaskResources, TaskState, Text,
};

/// An allocation in a list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "AllocationStub")]
pub struct AllocationStub<S: Text = String> {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: S,
    /// The evaluation that placed it.
    #[serde(rename = "EvalID")]
    pub eval_id: S,
    /// `JOB.GROUP[INDEX]`.
    pub name: S,
    /// Its job's namespace.
    pub namespace: S,
    /// Where it runs.
    #[serde(rename = "NodeID")]
    pub node_id: S,
    /// That node's name.
    pub node_name: S,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: S,
    /// That job's type.
    pub job_type: S,
    /// The version of the job that it runs.
    pub job_version: u64,
    /// Its group.
    pub task_group: S,
    /// What it holds, when asked for with `resources=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_resources: Option<AllocatedResources<S>>,
    /// `run` or `stop`.
    pub desired_status: S,
    /// Why, for people.
    pub desired_description: S,
    /// Whether it is to leave its node.
    pub desired_transition: DesiredTransition,
    /// `pending`, `running`, `complete`, `failed`, `lost` or `unknown`.
    pub client_status: S,
    /// Why, for people.
    pub client_description: S,
    /// By task name; none until its agent has reported, or with `task_states=false`.
    pub task_states: Option<BTreeMap<S, TaskState<S>>>,
    /// What it has shown of its health; none outside of deployments.
    pub deployment_status: Option<AllocDeploymentStatus>,
    /// Always empty.
    #[serde(rename = "FollowupEvalID")]
    pub followup_eval_id: S,
    /// Who replaces it; empty for nobody.
    pub next_allocation: S,
    /// Replacements of failed predecessors.
    pub reschedule_tracker: Option<RescheduleTracker<S>>,
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
#[schemars(rename = "Allocation")]
pub struct Allocation<S: Text = String> {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: S,
    /// Its job's namespace.
    pub namespace: S,
    /// The evaluation that placed it.
    #[serde(rename = "EvalID")]
    pub eval_id: S,
    /// `JOB.GROUP[INDEX]`.
    pub name: S,
    /// Where it runs.
    #[serde(rename = "NodeID")]
    pub node_id: S,
    /// That node's name.
    pub node_name: S,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: S,
    /// The version of its job that it runs, whole; left out of the event stream.
    #[schemars(with = "Option<Job>")]
    pub job: Option<Value>,
    /// The version of the job that it runs.
    pub job_version: u64,
    /// Its group.
    pub task_group: S,
    /// All that it holds.
    pub resources: TaskResources,
    /// What its tasks hold, by name.
    pub task_resources: BTreeMap<S, TaskResources>,
    /// What it holds, by task and in common.
    pub allocated_resources: AllocatedResources<S>,
    /// How it came to its node.
    pub metrics: PlacementMetric,
    /// `run` or `stop`.
    pub desired_status: S,
    /// Why, for people.
    pub desired_description: S,
    /// Whether it is to leave its node.
    pub desired_transition: DesiredTransition,
    /// `pending`, `running`, `complete`, `failed`, `lost` or `unknown`.
    pub client_status: S,
    /// Why, for people.
    pub client_description: S,
    /// By task name; none until its agent has reported.
    pub task_states: Option<BTreeMap<S, TaskState<S>>>,
    /// The deployment that it is part of; empty for none.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: S,
    /// Always none.
    pub deployment_status: Option<AllocDeploymentStatus>,
    /// Always empty.
    #[serde(rename = "FollowupEvalID")]
    pub followup_eval_id: S,
    /// Whom it replaces; empty for nobody.
    pub previous_allocation: S,
    /// Who replaces it; empty for nobody.
    pub next_allocation: S,
    /// Allocations on its node that must end before it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<S>,
    /// Allocations of lower priority that it preempted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preempted_allocations: Vec<S>,
    /// Who pushed it out; empty for nobody.
    pub preempted_by_allocation: S,
    /// Replacements of failed predecessors.
    pub reschedule_tracker: Option<RescheduleTracker<S>>,
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

/// What an operator asks of an allocation; kept for clients that read it.
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
#[schemars(rename = "RescheduleTracker")]
pub struct RescheduleTracker<S: Text = String> {
    /// Oldest first.
    pub events: Vec<RescheduleEvent<S>>,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "RescheduleEvent")]
pub struct RescheduleEvent<S: Text = String> {
    /// Nanoseconds.
    pub reschedule_time: u64,
    /// Who was replaced, where still known.
    #[serde(rename = "PrevAllocID")]
    pub prev_alloc_id: S,
    /// Where it failed; empty where that is not known any more.
    #[serde(rename = "PrevNodeID")]
    pub prev_node_id: S,
    /// How long it had to wait, nanoseconds.
    pub delay: u64,
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

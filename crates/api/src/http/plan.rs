//! Plans: what registering a job would do, without doing it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AllocationStub, Evaluation, Job, JobDiff, PlacementMetric, Time};

/// The body of `PUT /v1/job/:id/plan`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobPlan {
    /// The job as it would be registered.
    #[schemars(with = "Job")]
    pub job: Value,
    /// Whether the answer should say what differs from the job as it is.
    pub diff: bool,
    /// Kept for clients that send it.
    pub policy_override: bool,
}

/// What registering a job would do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobPlanned {
    /// What would happen to how many allocations.
    pub annotations: PlanAnnotations,
    /// Why something could not be placed, by group name; none when all could.
    #[serde(rename = "FailedTGAllocs")]
    pub failed_tg_allocs: Option<BTreeMap<String, PlacementMetric>>,
    /// Where each new allocation would go; Berth's own field, at most 1,000 of them.
    pub placements: Vec<PlannedPlacement>,
    /// What would end without anybody in its place, and what would change while it runs; Berth's own field, at most 1,000
    /// of them.
    pub touched: Vec<PlannedChange>,
    /// Where the job was last registered; 0 for a job that is not there. Register with this index to register only what
    /// was planned.
    pub job_modify_index: u64,
    /// Evaluations in which what is left to be done would wait, for room or for its time; none for none. Their ids are made up:
    /// a plan makes none of them.
    pub created_evals: Option<Vec<Evaluation>>,
    /// What differs, when asked for.
    pub diff: Option<JobDiff>,
    /// Of a periodic job.
    pub next_periodic_launch: Time,
    /// For people; empty for none.
    pub warnings: String,
    /// The same as `JobModifyIndex`, as the header X-Nomad-Index is.
    pub index: u64,
}

/// What would happen to how many allocations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PlanAnnotations {
    /// By group name.
    #[serde(rename = "DesiredTGUpdates")]
    pub desired_tg_updates: BTreeMap<String, DesiredUpdates>,
    /// Allocations of other jobs that would have to make room; none for none.
    pub preempted_allocs: Option<Vec<AllocationStub>>,
}

/// What would happen to how many allocations of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DesiredUpdates {
    /// Nothing.
    pub ignore: u64,
    /// New ones.
    pub place: u64,
    /// Moved to another node.
    pub migrate: u64,
    /// Ended for good.
    pub stop: u64,
    /// Changed while they run; Berth counts these as left alone.
    pub in_place_update: u64,
    /// Ended, and placed again with what the job says now.
    pub destructive_update: u64,
    /// New ones that try a change out.
    pub canary: u64,
    /// Allocations of other jobs that make room.
    pub preemptions: u64,
}

/// Where a new allocation would go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PlannedPlacement {
    /// `JOB.GROUP[INDEX]`.
    pub name: String,
    /// Its group.
    pub task_group: String,
    /// Its node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// That node's name.
    pub node_name: String,
    /// Whom it would replace; empty for nobody.
    pub previous_allocation: String,
    /// What it is: `create`, `create/destroy update`, `migrate` or `canary`.
    pub action: String,
    /// Allocations of other jobs that would make room for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<String>,
}

/// What would happen to an allocation that is there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PlannedChange {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// `JOB.GROUP[INDEX]`.
    pub name: String,
    /// Its group.
    pub task_group: String,
    /// Its node's name.
    pub node_name: String,
    /// `destroy` or `in-place update`.
    pub action: String,
    /// Why, for people; empty where the action says it.
    pub reason: String,
}

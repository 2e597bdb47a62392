//! Scaling: how many allocations a group wants, who changed that, and within which bounds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of `PUT /v1/job/:id/scale`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobScale {
    /// How many allocations the group should have; none to only leave a message.
    pub count: Option<i64>,
    /// The group, as `{"Group": NAME}`.
    pub target: BTreeMap<String, String>,
    /// Why, for people.
    pub message: String,
    /// Whether the message reports an error; then there must be no count.
    pub error: bool,
    /// The same for programs.
    pub meta: Option<BTreeMap<String, Value>>,
    /// Kept for clients that send it.
    pub policy_override: bool,
}

/// How a job's groups are scaled.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobScaleStatus {
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The job's namespace.
    pub namespace: String,
    /// Its first registration.
    pub job_create_index: u64,
    /// Its last registration.
    pub job_modify_index: u64,
    /// Whether its owner has stopped it.
    pub job_stopped: bool,
    /// By name.
    pub task_groups: BTreeMap<String, GroupScaleStatus>,
}

/// How a group is scaled.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct GroupScaleStatus {
    /// Allocations that are desired.
    pub desired: u32,
    /// Allocations that have a node.
    pub placed: u32,
    /// Of these, the ones that run.
    pub running: u32,
    /// Of these, the ones that a deployment found healthy.
    pub healthy: u32,
    /// Of these, the ones that a deployment found unhealthy.
    pub unhealthy: u32,
    /// The last changes, newest first.
    pub events: Vec<ScalingEvent>,
}

/// A change of a group's count, or a message about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScalingEvent {
    /// When, nanoseconds.
    pub time: u64,
    /// What the count became; none for a message alone.
    pub count: Option<u32>,
    /// What the count was.
    pub previous_count: u32,
    /// Whether the message reports an error.
    pub error: bool,
    /// Why, for people.
    pub message: String,
    /// The same for programs.
    pub meta: BTreeMap<String, Value>,
    /// The evaluation that acts on it; none for a message alone.
    #[serde(rename = "EvalID")]
    pub eval_id: Option<String>,
    /// Where it stands.
    pub create_index: u64,
}

/// A scaling policy in a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScalingPolicyStub {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Whether it is in force.
    pub enabled: bool,
    /// `horizontal`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Namespace, job and group.
    pub target: BTreeMap<String, String>,
    /// Its job's first registration.
    pub create_index: u64,
    /// Its job's last change.
    pub modify_index: u64,
}

/// A scaling policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScalingPolicy {
    /// Its id; follows from its job and group.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its job's namespace.
    pub namespace: String,
    /// `horizontal`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Namespace, job and group.
    pub target: BTreeMap<String, String>,
    /// Not less.
    pub min: u32,
    /// Not more.
    pub max: u32,
    /// What only the autoscaler understands.
    pub policy: BTreeMap<String, Value>,
    /// Whether autoscalers may act.
    pub enabled: bool,
    /// Its job's first registration.
    pub create_index: u64,
    /// Its job's last change.
    pub modify_index: u64,
}

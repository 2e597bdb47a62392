//! How jobs fare, in brief and with their allocations: what dashboards ask for again and again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of `PUT /v1/jobs/statuses`. Clients write its names in either case.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "JobStatusesAsked")]
pub struct JobStatusesRequest {
    /// The jobs; none for all.
    #[serde(alias = "jobs")]
    pub jobs: Option<Vec<JobName>>,
    /// Whether runs and dispatches of other jobs are shown too, when all are asked for.
    #[serde(alias = "include_children", alias = "includeChildren")]
    pub include_children: bool,
}

/// Names a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobName {
    /// Its id.
    #[serde(rename = "ID", alias = "id")]
    pub id: String,
    /// Its namespace; `default` when empty.
    #[serde(alias = "namespace")]
    pub namespace: String,
}

/// How a job fares.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobStatus {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its namespace.
    pub namespace: String,
    /// A name to read; it need not be unique.
    pub name: String,
    /// `service`, `batch`, `system` or `sysbatch`.
    #[serde(rename = "Type")]
    pub job_type: String,
    /// The pool whose nodes may run it.
    pub node_pool: String,
    /// Names or globs.
    pub datacenters: Vec<String>,
    /// More goes first.
    pub priority: u8,
    /// From 0.
    pub version: u64,
    /// When this version was registered, nanoseconds.
    pub submit_time: u64,
    /// The last change of the job or of its status.
    pub modify_index: u64,
    /// All that are not forgotten.
    pub allocs: Vec<JobStatusAlloc>,
    /// How many allocations its groups ask for together.
    pub group_count_sum: u64,
    /// `pending`, `running` or `dead`, of each job that it made; none for a job that makes none.
    pub child_statuses: Option<Vec<String>>,
    /// The job that made this one; empty for none.
    #[serde(rename = "ParentID")]
    pub parent_id: String,
    /// Always none: there are no deployments yet.
    pub latest_deployment: Option<Value>,
    /// Whether its owner stopped it.
    pub stop: bool,
    /// Always false.
    pub is_pack: bool,
    /// `pending`, `running` or `dead`.
    pub status: String,
}

/// An allocation of such a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobStatusAlloc {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its group.
    pub group: String,
    /// As in an allocation.
    pub client_status: String,
    /// Its node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// Always none: there are no deployments yet.
    pub deployment_status: Option<Value>,
    /// The version of the job that it runs.
    pub job_version: u64,
    /// Always empty.
    #[serde(rename = "FollowupEvalID")]
    pub followup_eval_id: String,
    /// Always false.
    pub has_paused_task: bool,
}

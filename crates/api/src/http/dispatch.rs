//! Running a parameterized job with values for its parameters.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of `PUT /v1/job/:id/dispatch`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobDispatch {
    /// The job; that of the path when empty.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// Base64; none for no payload.
    pub payload: Option<String>,
    /// By name.
    pub meta: Option<BTreeMap<String, String>>,
    /// Stands in the new job's id, after `dispatch-`; empty for none.
    pub id_prefix_template: String,
}

/// The answer to a dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobDispatched {
    /// The job that was made.
    #[serde(rename = "DispatchedJobID")]
    pub dispatched_job_id: String,
    /// The evaluation that acts on it.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// Where that was made.
    pub eval_create_index: u64,
    /// Where the job was made.
    pub job_create_index: u64,
    /// Readers that ask for this index see the change.
    pub index: u64,
}

/// The answer to running a periodic job now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PeriodicForced {
    /// The evaluation that acts on it.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// Where that was made.
    pub eval_create_index: u64,
    /// Readers that ask for this index see the change.
    pub index: u64,
}

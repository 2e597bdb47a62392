//! Going back to an earlier version of a job. Answered as a registration is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of `PUT /v1/job/:id/revert`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobRevert {
    /// The job; that of the path when empty.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The version to go back to.
    pub job_version: u64,
    /// Only if this is the current version.
    pub enforce_prior_version: Option<u64>,
}

//! Deployments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A deployment. There are none yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// Where it is in its life.
    pub status: String,
    /// For people.
    pub status_description: String,
    /// Where it was made.
    pub create_index: u64,
    /// Where it last changed.
    pub modify_index: u64,
}

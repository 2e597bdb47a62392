//! How an allocation's checks stand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How one check stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocCheck {
    /// Names it among its allocation's checks.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its name.
    pub check: String,
    /// The allocation's group.
    pub group: String,
    /// `healthiness`, or `readiness` where deployments do not wait for it.
    pub mode: String,
    /// The beginning of its last answer.
    pub output: String,
    /// The service that it speaks for.
    pub service: String,
    /// The task that it is about; empty for the group.
    pub task: String,
    /// `pending`, `success`, `warning` or `failure`.
    pub status: String,
    /// HTTP's status, or a command's exit code.
    pub status_code: i32,
    /// Of the last answer: seconds since the Unix epoch.
    pub timestamp: i64,
}

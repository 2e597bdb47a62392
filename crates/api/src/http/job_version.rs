//! Versions of a job: those that are kept, their tags, and which have proved themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Job, JobDiff};

/// The versions of a job that are kept, newest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobVersions {
    /// Jobs.
    #[schemars(with = "Vec<Job>")]
    pub versions: Vec<Value>,
    /// What differs between each and the one before it, with `diffs=true`; the oldest has none. With `diff_tag` or
    /// `diff_version`, what differs between that version and each.
    pub diffs: Option<Vec<JobDiff>>,
}

/// The tag of a version, as part of its job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobVersionTag {
    /// Unique among the versions of the job.
    pub name: String,
    /// In words, what it is.
    pub description: String,
    /// When the version got it, nanoseconds.
    pub tagged_time: u64,
}

/// The body of `PUT /v1/job/:id/versions/:name/tag`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobTag {
    /// The version that gets the tag; the newest one when there is none.
    pub version: Option<u64>,
    /// In words, what it is.
    pub description: String,
}

/// The body of `PUT /v1/job/:id/stable`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobStability {
    /// The job; that of the path when empty.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// Number of the version to mark.
    pub job_version: u64,
    /// Whether it has proved itself.
    pub stable: bool,
}

/// The answer to a change of a version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobVersionChanged {
    /// Where the job was changed.
    pub job_modify_index: u64,
    /// Readers that ask for this index see the change.
    pub index: u64,
    /// Milliseconds; always 0.
    pub last_contact: u64,
    /// Always true.
    pub known_leader: bool,
}

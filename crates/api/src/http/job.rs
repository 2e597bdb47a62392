//! Jobs: what lists show of them, their counts, and what changes them.
//!
//! A job itself is JSON as `berth_jobfile` reads and writes it, with the fields of [`JobServerFields`] added.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JobVersionTag;

/// What the server knows of a job beyond what its owner wrote. Stands in the job's own JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "JobStanding")]
pub struct JobServerFields {
    /// The job that made this one; empty for none.
    #[serde(rename = "ParentID")]
    pub parent_id: String,
    /// Whether it is a dispatch of a parameterized job.
    pub dispatched: bool,
    /// What the dispatch carries, base64; none for nothing.
    pub payload: Option<String>,
    /// `pending`, `running` or `dead`.
    pub status: String,
    /// In words, why its status is what it is.
    pub status_description: String,
    /// What became of a job that is dead, and that nobody stopped: `complete`, or `failed` when something of it ended
    /// badly and is not tried again; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub outcome: String,
    /// Whether a deployment found this version healthy.
    pub stable: bool,
    /// From 0.
    pub version: u64,
    /// By which people find this version again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_tag: Option<JobVersionTag>,
    /// When this version was registered, nanoseconds.
    pub submit_time: u64,
    /// The first registration.
    pub create_index: u64,
    /// The last change of the job or of its status.
    pub modify_index: u64,
    /// The registration of this version.
    pub job_modify_index: u64,
    /// Of a periodic job only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periodic_launch: Option<PeriodicLaunch>,
}

/// When a periodic job runs. Nanoseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PeriodicLaunch {
    /// When it was last due; 0 for not yet.
    pub last: u64,
    /// Whether it was left out then, because an earlier run had not ended.
    pub overlapped: bool,
    /// It made up for this time and those after it, at which no server led; 0 for none.
    pub missed_since: u64,
    /// When it is due next; 0 for never again.
    pub next: u64,
}

/// A job as job files in JSON have it, and what the server knows of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Job(pub Value);

impl JsonSchema for Job {
    fn schema_name() -> Cow<'static, str> {
        "Job".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        // Its members and not a reference beside others: some who make clients from descriptions take a type with one reference
        // for the type that it refers to, and leave out all the rest.
        let standing = JobServerFields::json_schema(generator);
        json_schema!({
            "description": "A job as job files in JSON have it, and what the server knows of it.",
            "type": "object",
            "properties": standing.get("properties").cloned().unwrap_or_default(),
        })
    }
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobStub {
    /// Unique in its namespace.
    #[serde(rename = "ID")]
    pub id: String,
    /// The job that made this one; empty for none.
    #[serde(rename = "ParentID")]
    pub parent_id: String,
    /// A name to read; it need not be unique.
    pub name: String,
    /// The tenant that owns it.
    pub namespace: String,
    /// Names or globs.
    pub datacenters: Vec<String>,
    /// The pool whose nodes may run it.
    pub node_pool: String,
    /// `service`, `batch`, `system` or `sysbatch`.
    #[serde(rename = "Type")]
    pub job_type: String,
    /// 1 to 100.
    pub priority: u8,
    /// Whether it runs by the clock.
    pub periodic: bool,
    /// Whether it is a template for dispatched jobs.
    pub parameterized_job: bool,
    /// Whether its owner has stopped it.
    pub stop: bool,
    /// `pending`, `running` or `dead`.
    pub status: String,
    /// In words, why its status is what it is.
    pub status_description: String,
    /// What became of a job that is dead, and that nobody stopped: `complete`, or `failed` when something of it ended
    /// badly and is not tried again; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub outcome: String,
    /// Counts by group.
    pub job_summary: JobSummary,
    /// The owner's labels, when asked for with `meta=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<BTreeMap<String, String>>,
    /// The current version.
    pub version: u64,
    /// When it was registered, nanoseconds.
    pub submit_time: u64,
    /// The first registration.
    pub create_index: u64,
    /// The last change of the job or of its status.
    pub modify_index: u64,
    /// The last registration.
    pub job_modify_index: u64,
}

/// How many allocations of a job are in which state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobSummary {
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The job's namespace.
    pub namespace: String,
    /// By group name.
    pub summary: BTreeMap<String, GroupSummary>,
    /// Of the jobs that it made.
    pub children: Option<ChildrenSummary>,
    /// The job's first registration.
    pub create_index: u64,
    /// The last change of any count.
    pub modify_index: u64,
}

/// How many allocations of a group are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct GroupSummary {
    /// Desired and not placed.
    pub queued: u32,
    /// Ended well.
    pub complete: u32,
    /// Ended badly.
    pub failed: u32,
    /// A task runs.
    pub running: u32,
    /// Placed, and nothing runs yet.
    pub starting: u32,
    /// Given up with their node.
    pub lost: u32,
    /// On a node that is away for a time.
    pub unknown: u32,
}

/// How many of the jobs that a job made are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ChildrenSummary {
    /// Nothing lives yet.
    pub pending: u32,
    /// Something lives.
    pub running: u32,
    /// Done.
    pub dead: u32,
}

/// The body of `PUT /v1/jobs`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobRegister {
    /// The job.
    #[schemars(with = "Job")]
    pub job: Value,
    /// Register only if `job_modify_index` is where the job was last registered.
    pub enforce_index: bool,
    /// 0 for a job that must not be there yet.
    pub job_modify_index: u64,
    /// Groups that the job has already keep their counts.
    pub preserve_counts: bool,
    /// Tasks that the job has already keep their resources.
    pub preserve_resources: bool,
    /// The priority of the evaluation, 1 to 100; 0 for the job's.
    pub eval_priority: i64,
    /// Register it although policies on jobs are against it; there are none, which the answer warns of.
    pub policy_override: bool,
    /// How the job was written down; kept with the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission: Option<JobSubmission>,
}

/// A job as its owner wrote it down.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobSubmission {
    /// The job file.
    pub source: String,
    /// How it is written: `hcl2` or `json`.
    pub format: String,
    /// Variables that were given one by one.
    pub variable_flags: Option<BTreeMap<String, String>>,
    /// Files of variables, one after the other.
    pub variables: String,
}

/// A submission, and the version of the job that was made of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobSubmissionRead {
    /// What was sent.
    #[serde(flatten)]
    pub submission: JobSubmission,
    /// The job's namespace.
    pub namespace: String,
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The version.
    pub version: u64,
    /// Where that was registered.
    pub job_modify_index: u64,
}

/// The answer to a registration, and to a request for a new evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobRegistered {
    /// The evaluation that acts on it.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// Where that was made.
    pub eval_create_index: u64,
    /// Where the job was registered.
    pub job_modify_index: u64,
    /// For people; empty for none.
    pub warnings: String,
    /// Readers that ask for this index see the change.
    pub index: u64,
    /// Milliseconds; always 0.
    pub last_contact: u64,
    /// Always true.
    pub known_leader: bool,
}

/// The answer to a deregistration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobDeregistered {
    /// The evaluation that acts on it.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// Where that was made.
    pub eval_create_index: u64,
    /// Where the job was changed.
    pub job_modify_index: u64,
    /// Readers that ask for this index see the change.
    pub index: u64,
    /// Milliseconds; always 0.
    pub last_contact: u64,
    /// Always true.
    pub known_leader: bool,
}

/// The body of `PUT /v1/jobs/parse`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobsParse {
    /// The job file.
    #[serde(rename = "JobHCL")]
    pub job_hcl: String,
    /// Fill in defaults; without it the answer has what the file says, and nothing else.
    pub canonicalize: bool,
    /// Values of variables, as a file of variables has them.
    pub variables: String,
}

/// The body of `PUT /v1/validate/job`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobValidate {
    /// The job.
    #[schemars(with = "Job")]
    pub job: Value,
}

/// What is wrong with a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobValidated {
    /// Whether drivers' settings were looked at too.
    pub driver_config_validated: bool,
    /// One text for each mistake.
    pub validation_errors: Option<Vec<String>>,
    /// All of them for people; empty for none.
    pub error: String,
    /// For people; empty for none.
    pub warnings: String,
}

/// The body of `PUT /v1/job/:id/evaluate`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobEvaluate {
    /// The job; that of the path when empty.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// Options of the evaluation.
    pub eval_options: EvaluateOptions,
}

/// How a job should be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct EvaluateOptions {
    /// Replace failed allocations at once, whatever the delay and the attempts of their groups' `reschedule`.
    pub force_reschedule: bool,
}

//! Why a job waits, and what would place it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlacementMetric, Time};

/// What planning a job now would come to. Berth's own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobExplanation {
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// Its namespace.
    pub namespace: String,
    /// Its groups.
    pub groups: Vec<GroupExplanation>,
    /// Where it stands among all that wait; null when it does not wait.
    pub queue: Option<QueuePosition>,
    /// When the first of what has failed is replaced that waits for its reschedule; the beginning of all time when nothing
    /// does.
    pub retry_at: Time,
    /// The state that was looked at.
    pub index: u64,
}

/// Where a job stands among all that wait for room.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "QueueStanding")]
pub struct QueuePosition {
    /// The dominant share of its namespace with all below it, by weight: 0.25 for a quarter of the cluster.
    pub share: f64,
    /// Namespaces whose waiting jobs of the same or a higher priority are tried before those of this one.
    pub namespaces_ahead: usize,
    /// Waiting jobs of its own namespace that are tried before it.
    pub jobs_ahead: usize,
}

/// What planning a group now would come to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct GroupExplanation {
    /// The group's name.
    pub name: String,
    /// Allocations that can be placed nowhere.
    pub missing: u32,
    /// Allocations of other jobs that would be preempted for the rest.
    pub preempted_allocations: Vec<String>,
    /// How the nodes fell out of consideration; null when nothing is missing, but for a system job that no node can run.
    pub failure: Option<PlacementMetric>,
    /// Single changes after which at least one more could be placed, the smallest first.
    pub changes: Vec<SmallestChange>,
    /// What stands in the way on the node of `?node=`, nothing when one more could be placed there; null when none was
    /// named.
    pub obstacles: Option<Vec<String>>,
}

/// A change of the job or of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SmallestChange {
    /// What to do, in words.
    pub change: String,
    /// On how many nodes one more allocation could be placed then.
    pub nodes: u32,
}

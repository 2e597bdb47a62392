//! Evaluations: whole, as relatives of another one, and why something could not be placed.

use std::{collections::BTreeMap, ops::Deref};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;

/// An evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Evaluation {
    /// What is shown of its relatives too.
    #[serde(flatten)]
    pub brief: EvaluationStub,
    /// With `related=true`: the evaluations that made it or that it made, and theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related_evals: Option<Vec<EvaluationStub>>,
    /// Why something could not be placed, by group name.
    #[serde(rename = "FailedTGAllocs")]
    pub failed_tg_allocs: Option<BTreeMap<String, PlacementMetric>>,
    /// The quota that allows no more; empty for none.
    pub quota_limit_reached: String,
    /// Allocations still to be placed, by group name.
    pub queued_allocations: BTreeMap<String, u32>,
    /// The state it was last planned on.
    pub snapshot_index: u64,
}

/// Whoever reads an evaluation need not know which part of it relatives share.
impl Deref for Evaluation {
    type Target = EvaluationStub;

    fn deref(&self) -> &EvaluationStub {
        &self.brief
    }
}

/// An evaluation in brief, as it is shown for a relative of another one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct EvaluationStub {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its job's priority.
    pub priority: u8,
    /// Its job's type.
    #[serde(rename = "Type")]
    pub job_type: String,
    /// What asked for it.
    pub triggered_by: String,
    /// Its job's namespace.
    pub namespace: String,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The node whose change asked for it; empty for none.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// Always empty: deployments name their evaluations nowhere.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: String,
    /// `pending`, `blocked`, `complete`, `failed` or `canceled`.
    pub status: String,
    /// In words, why its status is what it is.
    pub status_description: String,
    /// Not before this.
    pub wait_until: Time,
    /// Always empty.
    pub next_eval: String,
    /// The evaluation that made this one; empty for none.
    pub previous_eval: String,
    /// The evaluation in which what could not be placed waits; empty for none.
    pub blocked_eval: String,
    /// Where it was made.
    pub create_index: u64,
    /// Where it last changed.
    pub modify_index: u64,
    /// When it was made, nanoseconds.
    pub create_time: u64,
    /// When it last changed, nanoseconds.
    pub modify_time: u64,
}

/// How nodes fell out of consideration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PlacementMetric {
    /// All nodes that were ready and eligible; Berth's own field.
    pub nodes_considered: u32,
    /// Of these, the ones in the job's pool and datacenters.
    pub nodes_evaluated: u32,
    /// The same number, under the name that newer clients read.
    pub nodes_in_pool: u32,
    /// The same by datacenter.
    pub nodes_available: BTreeMap<String, u32>,
    /// Turned away by a constraint or a missing driver.
    pub nodes_filtered: u32,
    /// The same by reason.
    pub constraint_filtered: Option<BTreeMap<String, u32>>,
    /// Without room.
    pub nodes_exhausted: u32,
    /// The same by what is short.
    pub dimension_exhausted: Option<BTreeMap<String, u32>>,
    /// What quotas limit, as `memory (1200/1000)`: what would be held, and the limit.
    pub quota_exhausted: Option<Vec<String>>,
    /// Allocations beyond the first that failed for the same reasons.
    pub coalesced_failures: u32,
}

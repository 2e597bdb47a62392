//! How evaluations were answered: who planned, on which state, when, and what came of it. Berth's own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One plan. An evaluation has several when parts of the first were refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PlanTrace {
    /// The evaluation.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// Its job's namespace.
    pub namespace: String,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// Which of the server's planners made it, from 0.
    pub planner: u16,
    /// The state on which it rests.
    pub snapshot_index: u64,
    /// When the planner took the evaluation up, nanoseconds.
    pub begun_at: u64,
    /// When the plan was made and what it takes was claimed, nanoseconds.
    pub ended_at: u64,
    /// How often the planner made it again, because another planner had claimed meanwhile what it takes.
    pub overtaken: u64,
    /// Placements that were committed.
    pub committed: u64,
    /// Placements that were refused, because others were there first.
    pub refused: u64,
    /// The nodes of these, the first few of them; none when the job itself had changed.
    #[serde(rename = "RefusedNodeIDs")]
    pub refused_node_ids: Vec<String>,
}

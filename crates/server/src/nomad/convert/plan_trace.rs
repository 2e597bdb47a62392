//! Plan traces.

use berth_api::http;

use crate::shared::PlanTrace;

/// One plan.
pub fn plan_trace(trace: &PlanTrace) -> http::PlanTrace {
    http::PlanTrace {
        eval_id: trace.eval.to_string(),
        namespace: trace.job.namespace.to_string(),
        job_id: trace.job.name().to_owned(),
        planner: trace.planner,
        snapshot_index: trace.snapshot_index.0,
        begun_at: trace.begun_at.0,
        ended_at: trace.ended_at.0,
        overtaken: trace.overtaken as u64,
        committed: trace.committed as u64,
        refused: trace.refused as u64,
        refused_node_ids: trace.refused_nodes.iter().map(ToString::to_string).collect(),
    }
}

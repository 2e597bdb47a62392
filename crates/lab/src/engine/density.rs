//! Registers jobs one after the other until the cluster is full.

use std::time::{Duration, Instant};

use berth_model::resources::Resources;
use serde_json::Value;

use super::cluster::InMemoryCluster;

/// Duration of planning and of applying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PlanningTimes {
    /// Allocations that were placed.
    pub placements: usize,
    /// Catching up with the state, reconciling, placing, and finishing plans.
    pub planning: Duration,
    /// Changing the state by these plans.
    pub applying: Duration,
}

/// Decides the placement of all `jobs`, in Nomad's JSON, on `nodes` nodes of that CPU (MHz), memory and disk (MiB).
///
/// # Errors
/// When a job cannot be read.
pub(crate) fn density(
    seed: u64,
    nodes: u32,
    [cpu_mhz, memory_mb, disk_mb]: [u32; 3],
    jobs: impl Iterator<Item = Value>,
) -> Result<PlanningTimes, String> {
    let mut cluster = InMemoryCluster::new(seed);
    cluster.add_nodes(nodes, Resources { cpu_mhz, memory_mb, disk_mb });
    let mut evals = Vec::new();
    for job in jobs {
        let parsed = berth_jobfile::parse_json(job.to_string().as_bytes(), "job.json");
        evals.push(cluster.register(parsed.map_err(|mistakes| mistakes.messages())?.job));
    }
    let mut decisions = PlanningTimes::default();
    for eval in evals {
        let started_at = Instant::now();
        let plan = cluster.plan(eval);
        let planned = Instant::now();
        cluster.commit(plan);
        decisions.planning += planned - started_at;
        decisions.applying += planned.elapsed();
    }
    decisions.placements = cluster.allocs();
    Ok(decisions)
}

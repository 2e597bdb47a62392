//! Forgetting what nobody asks for any more, a bounded piece at a time.

use std::time::Duration;

use berth_model::{
    Timestamp,
    command::{Collect, Command},
    job::JobType,
    node::NodeStatus,
    store::{JobStatus, Store},
};

/// Evaluations and allocations of services are kept this long after their end.
const SERVICE_KEPT: Duration = Duration::from_secs(3600);
/// Evaluations and allocations of batch jobs are kept this long after their end.
const BATCH_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Dead jobs are kept this long.
const JOB_KEPT: Duration = Duration::from_secs(4 * 3600);
/// Nodes that are down are kept this long.
const NODE_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Things forgotten in one entry.
const COLLECTED_MAX: usize = 4096;

/// What can be forgotten now; none when nothing can.
pub(crate) fn due(store: &Store, now: Timestamp) -> Option<Command> {
    let collect = Collect {
        jobs: due_jobs(store, now),
        allocs: due_allocs(store, now),
        evals: due_evals(store, now),
        nodes: due_nodes(store, now),
    };
    (collect != Collect::default()).then(|| Command::Collect(Box::new(collect)))
}

fn kept(job_type: JobType) -> Duration {
    if job_type.runs_to_completion() { BATCH_KEPT } else { SERVICE_KEPT }
}

fn due_jobs(store: &Store, now: Timestamp) -> Vec<berth_model::JobKey> {
    let dead = store.jobs().iter().filter(|(_, row)| row.status() == JobStatus::Dead);
    let over = dead.filter(|(_, row)| {
        let last_eval =
            store.jobs().evals(row).filter_map(|slot| store.evals().row(slot)).map(|e| e.modified_at).max();
        let last_change = last_eval.unwrap_or_default().max(row.current().submitted_at);
        row.purge || row.job().stop && now.since(last_change) > JOB_KEPT
    });
    over.take(COLLECTED_MAX / 16).map(|(_, row)| row.key.clone()).collect()
}

fn due_allocs(store: &Store, now: Timestamp) -> Vec<berth_model::AllocId> {
    let ended = store.allocs().iter().filter(|(_, row)| row.is_terminal());
    let over = ended.filter(|(slot, row)| {
        let job_type = store.jobs().row(row.job).map_or(JobType::Service, |job| job.job().job_type);
        let since = store.allocs().detail(*slot).map_or(now, |detail| detail.modified_at);
        // A finished batch allocation is what keeps its job from running again: it stays as long as its job.
        !job_type.runs_to_completion() && now.since(since) > kept(job_type)
    });
    over.take(COLLECTED_MAX).map(|(_, row)| row.id).collect()
}

fn due_evals(store: &Store, now: Timestamp) -> Vec<berth_model::EvalId> {
    let done = store.evals().iter().filter(|(_, eval)| eval.status.is_terminal());
    let over = done.filter(|(_, eval)| now.since(eval.modified_at) > kept(eval.job_type));
    over.take(COLLECTED_MAX).map(|(_, eval)| eval.id).collect()
}

fn due_nodes(store: &Store, now: Timestamp) -> Vec<berth_model::NodeId> {
    let down = store.nodes().iter().filter(|(_, row)| row.status == NodeStatus::Down);
    let over = down.filter(|(slot, row)| {
        let since = store.nodes().detail(*slot).map_or(now, |detail| detail.status_at);
        row.live.is_empty() && row.ended.is_empty() && now.since(since) > NODE_KEPT
    });
    over.take(COLLECTED_MAX / 16).map(|(_, row)| row.id).collect()
}

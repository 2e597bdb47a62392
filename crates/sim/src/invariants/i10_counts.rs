//! I10: every count is met, or a reason is recorded; no evaluation waits for nothing.

use std::sync::Arc;

use berth_model::{
    deployment::{Deployment, DeploymentStatus},
    eval::EvalStatus,
    node::NodeStatus,
    store::{JobRow, Store},
};

use super::Check;

const RULE: &str = "I10 counts are met, or there is a reason";

/// All nodes are ready, no evaluation is left over, and jobs have what they ask for.
pub fn at_rest(store: &Store) -> Check {
    if let Some((_, node)) =
        store.nodes().iter().find(|(_, node)| node.status != NodeStatus::Ready && !node.purged)
    {
        return Err(("R4 nodes come back", format!("node {} is {:?}", node.id, node.status)));
    }
    let wedged =
        |eval: &berth_model::eval::Eval| eval.status == EvalStatus::Pending && eval.wait_until <= store.at();
    if let Some((_, eval)) = store.evals().iter().find(|(_, eval)| wedged(eval)) {
        return Err((RULE, format!("evaluation {} of {} is pending for ever", eval.id, eval.job)));
    }
    let is_stuck = |of: &&Arc<Deployment>| {
        let evals = store.job(&of.job).into_iter().flat_map(|row| store.jobs().evals(row));
        let mut open = evals.filter_map(|slot| store.evals().row(slot)).filter(|e| !e.status.is_terminal());
        of.is_active() && open.next().is_none()
    };
    if let Some(stuck) = store.deployments().iter().find(is_stuck) {
        return Err(("R4 deployments end", format!("{} of {} waits for nothing", stuck.id, stuck.job)));
    }
    for (_, row) in store.jobs().iter() {
        let job = row.job();
        if job.job_type.is_per_node() || job.job_type.runs_to_completion() || job.only_launches() {
            continue;
        }
        let allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
        let wanted = allocs.filter(|alloc| alloc.is_wanted()).count();
        let count = if job.stop { 0 } else { job.groups.iter().map(|group| group.count as usize).sum() };
        let evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
        let waits = evals.filter(|eval| !eval.status.is_terminal()).count();
        if has_failed(store, row) {
            // What its failed version lacks is not placed, and that is said by its deployment.
            continue;
        }
        if wanted > count + canaries(store, row) || wanted < count && waits == 0 {
            return Err((
                RULE,
                format!("job {}: {wanted} of {count} run, {waits} evaluations wait", row.key),
            ));
        }
    }
    Ok(())
}

/// How many may stand beside the old allocations of a job, while its newest version waits for its promotion.
fn canaries(store: &Store, row: &JobRow) -> usize {
    let last = store.deployments().of_version(&row.key, row.current().version);
    let groups = last.filter(|last| last.is_active()).into_iter().flat_map(|last| &last.groups);
    groups.filter(|group| group.is_canarying()).map(|group| group.desired_canaries as usize).sum()
}

/// Whether the deployment of a job's newest version has failed.
pub fn has_failed(store: &Store, row: &JobRow) -> bool {
    let last = store.deployments().of_version(&row.key, row.current().version);
    last.is_some_and(|last| last.status == DeploymentStatus::Failed)
}

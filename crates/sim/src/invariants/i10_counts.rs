//! I10: every count is met, or a reason is recorded; no evaluation waits for nothing.

use berth_model::{eval::EvalStatus, node::NodeStatus, store::Store};

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
        if wanted > count || wanted < count && waits == 0 {
            return Err((
                RULE,
                format!("job {}: {wanted} of {count} run, {waits} evaluations wait", row.key),
            ));
        }
    }
    Ok(())
}

//! I11: a system job has exactly one allocation on each eligible node, which may have ended by itself.

use berth_model::{job::JobType, store::Store};

use super::Check;

/// One each, or an evaluation that waits for room.
pub fn at_rest(store: &Store) -> Check {
    for (_, row) in
        store.jobs().iter().filter(|(_, row)| row.job().job_type == JobType::System && !row.job().stop)
    {
        let evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
        let waits = evals.filter(|eval| !eval.status.is_terminal()).count() > 0;
        for (slot, node) in store.nodes().iter().filter(|(_, node)| node.is_ready() && !node.purged) {
            let allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
            let allocs: Vec<_> = allocs.filter(|alloc| alloc.node == slot).collect();
            let here = allocs.iter().filter(|alloc| alloc.is_wanted()).count();
            let is_covered = allocs.iter().any(|alloc| store.keeps_node_covered(alloc));
            if here > 1 || here == 0 && !waits && !is_covered {
                let what = format!("job {} has {here} allocations on node {}", row.key, node.id);
                return Err(("I11 a system job runs once on each node", what));
            }
        }
    }
    Ok(())
}

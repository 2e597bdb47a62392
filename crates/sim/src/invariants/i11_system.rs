//! I11: a system job has exactly one allocation on each eligible node, which may have ended by itself; never two.

use std::collections::BTreeSet;

use berth_model::{
    job::JobType,
    store::{JobRow, Store},
};

use super::Check;

const RULE: &str = "I11 a system job runs once on each node";

fn system_jobs(store: &Store) -> impl Iterator<Item = &JobRow> {
    store.jobs().iter().map(|(_, row)| row).filter(|row| row.job().job_type == JobType::System)
}

/// Whatever happens: an allocation and its successor on the same node are never both to run.
pub fn always(store: &Store) -> Check {
    for row in system_jobs(store) {
        let allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
        let mut nodes = BTreeSet::new();
        if let Some(twice) = allocs.filter(|alloc| alloc.is_wanted()).find(|alloc| !nodes.insert(alloc.node))
        {
            return Err((RULE, format!("job {} has two allocations on the node of {}", row.key, twice.id)));
        }
    }
    Ok(())
}

/// One each, or an evaluation that waits for room; none of a job that is stopped or wants none.
pub fn at_rest(store: &Store) -> Check {
    let wanted = |row: &&JobRow| !row.job().stop && row.job().groups.iter().any(|group| group.count > 0);
    for row in system_jobs(store).filter(wanted) {
        let evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
        let waits = evals.filter(|eval| !eval.status.is_terminal()).count() > 0;
        for (slot, node) in store.nodes().iter().filter(|(_, node)| node.is_ready() && !node.purged) {
            let allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
            let allocs: Vec<_> = allocs.filter(|alloc| alloc.node == slot).collect();
            let here = allocs.iter().filter(|alloc| alloc.is_wanted()).count();
            let is_covered = allocs.iter().any(|alloc| store.keeps_node_covered(alloc));
            if here > 1 || here == 0 && !waits && !is_covered {
                let what = format!("job {} has {here} allocations on node {}", row.key, node.id);
                return Err((RULE, what));
            }
        }
    }
    Ok(())
}

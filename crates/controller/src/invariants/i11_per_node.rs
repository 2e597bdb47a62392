//! I11: a system job has exactly one allocation on each eligible node, which may have ended by itself; never two. A sysbatch job
//! has too, until that one has succeeded.

use std::collections::BTreeSet;

use berth_model::store::{AllocRow, JobRow, NodeSlot, Store};

/// An allocation beside another one of its job on the same node, both of which are to run: there is none, whatever happens. A job
/// with several groups has one of each.
pub fn twice(store: &Store, row: &JobRow) -> Option<String> {
    if !row.job().job_type.is_per_node() {
        return None;
    }
    let allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
    let mut known = BTreeSet::new();
    let mut desired = allocs.filter(|alloc| alloc.is_desired()).filter_map(|alloc| {
        let (_, group) = store.job_of(alloc)?;
        Some((alloc, group.name.as_str()))
    });
    let twice = desired.find(|(alloc, group)| !known.insert((alloc.node, *group)));
    twice.map(|(alloc, _)| format!("job {} has two allocations on the node of {}", row.key, alloc.id))
}

/// What is wrong with a job: on each node that is open to it one of it runs, or has ended by itself, or an evaluation waits for
/// capacity; none of a job that is stopped or wants none. It may be so while an evaluation is being made, and of nodes that cannot
/// run it.
pub fn lacks(store: &Store, row: &JobRow) -> Option<String> {
    let job = row.job();
    let is_wanted = !job.stop && !job.only_launches() && job.groups.iter().any(|group| group.count > 0);
    if !job.job_type.is_per_node() || !is_wanted {
        return None;
    }
    let mut evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
    if evals.any(|eval| !eval.status.is_terminal()) {
        return None;
    }
    let allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
    let covering = allocs.filter(|alloc| alloc.is_desired() || store.keeps_node_covered(alloc));
    let place = |alloc: &AllocRow| Some((alloc.node, store.job_of(alloc)?.1.name.as_str()));
    let covered: BTreeSet<(NodeSlot, &str)> = covering.filter_map(place).collect();
    let mut open = store.nodes().iter().filter(|(_, node)| node.is_ready() && !node.purged);
    let lacks = |slot| {
        let mut wanted = job.groups.iter().filter(|group| group.count > 0);
        wanted.any(|group| !covered.contains(&(slot, group.name.as_str())))
    };
    let (_, node) = open.find(|(slot, _)| lacks(*slot))?;
    Some(format!("job {} lacks something on node {}, and has no reason", row.key, node.id))
}

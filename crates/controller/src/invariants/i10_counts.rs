//! I10: a job has as many allocations as it asks for, or there is a reason.

use std::{collections::BTreeSet, sync::Arc};

use berth_model::{
    alloc::ClientStatus,
    deployment::DeploymentStatus,
    eval::Eval,
    job::VersionChange,
    store::{AllocRow, AllocSlot, JobRow, Store},
};
use berth_scheduler::reconcile::failed_for_good;

/// What is wrong with a job that has not what it asks for, and no reason for it. It may be so while an evaluation is being made;
/// jobs with one allocation on each node have a rule of their own.
pub fn lacks(store: &Store, row: &JobRow) -> Option<String> {
    let job = row.job();
    if job.job_type.is_per_node() || job.only_launches() {
        return None;
    }
    let allocs: Vec<(AllocSlot, &AllocRow)> =
        store.jobs().allocs(row).filter_map(|slot| Some((slot, store.allocs().row(slot)?))).collect();
    let wanted = allocs.iter().filter(|(_, alloc)| alloc.is_desired()).count();
    let failed = failed_for_good(store, row, store.at());
    // Each name is done once, however often it ran.
    let is_over = |at: &&(AllocSlot, &AllocRow)| match job.job_type.runs_to_completion() {
        true => is_over(store, row, **at),
        false => failed.contains(&at.0),
    };
    let names =
        allocs.iter().filter(is_over).map(|(_, alloc)| (alloc.job_version, alloc.group, alloc.name_index));
    let group = |version, group: u16| Some(&row.version(version)?.job.groups.get(usize::from(group))?.name);
    let over: BTreeSet<_> = names.map(|(version, of, name)| (group(version, of), name)).collect();
    let over = over.len();
    let count = if job.stop { 0 } else { job.groups.iter().map(|group| group.count as usize).sum() };
    // What its failed version lacks is not placed, and that is said by its deployment.
    if wanted == count || has_failed(store, row) {
        return None;
    }
    let waits = open_evals(store, row).count();
    let stood_in_for = allocs.iter().filter(|(slot, alloc)| is_stood_in_for(store, (*slot, alloc))).count();
    // Nothing is added of a version that has still to prove itself: its deployment says that it waits for that.
    let canaries = canaries(store, row);
    let lacks = wanted + over < count && waits == 0 && canaries == 0;
    let is_wrong = lacks || wanted > count + canaries + stood_in_for;
    is_wrong.then(|| {
        let key = &row.key;
        format!("job {key}: {wanted} of {count} run, {over} are over, {waits} evaluations wait")
    })
}

/// Whether an allocation of batch work has ended for good: it has succeeded, or may not be tried again.
fn is_over(store: &Store, row: &JobRow, (slot, alloc): (AllocSlot, &AllocRow)) -> bool {
    let is_replaced = store.allocs().extra(slot).is_some_and(|extra| extra.next.is_some());
    alloc.ended_by_itself()
        && (alloc.client == ClientStatus::Complete || !is_replaced)
        && row.change_of(alloc.job_version, alloc.group) != VersionChange::Replacement
}

/// Whether an allocation is on a silent node, and another was placed in its stead until that is back.
fn is_stood_in_for(store: &Store, (slot, alloc): (AllocSlot, &AllocRow)) -> bool {
    let is_silent = store.nodes().row(alloc.node).is_none_or(|node| node.status.is_silent());
    alloc.is_desired() && is_silent && store.allocs().extra(slot).is_some_and(|extra| extra.next.is_some())
}

/// The evaluations of a job that are not over.
fn open_evals<'a>(store: &'a Store, row: &'a JobRow) -> impl Iterator<Item = &'a Arc<Eval>> {
    let evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
    evals.filter(|eval| !eval.status.is_terminal())
}

/// How many may stand beside the old allocations of a job, while its newest version waits for its promotion.
fn canaries(store: &Store, row: &JobRow) -> usize {
    let last = store.deployments().of_version(&row.key, row.current().version);
    let groups = last.filter(|last| last.is_active()).into_iter().flat_map(|last| &last.groups);
    groups.filter(|group| group.is_canarying()).map(|group| group.desired_canaries as usize).sum()
}

/// Whether the deployment of a job's newest version has failed.
fn has_failed(store: &Store, row: &JobRow) -> bool {
    let last = store.deployments().of_version(&row.key, row.current().version);
    last.is_some_and(|last| last.status == DeploymentStatus::Failed)
}

//! Wishes against what is there: which allocations to end, and which are missing.

mod group;
mod per_node;
mod reschedule;

use std::collections::HashSet;

use berth_model::{
    AllocId, Timestamp,
    alloc::{Stop, StopReason},
    job::Job,
    store::{AllocRow, AllocSlot, JobRow, Store},
};

use crate::place::{Ask, There};

/// What a job needs.
#[derive(Debug, Default)]
pub struct Changes {
    /// Allocations to end.
    pub stops: Vec<Stop>,
    /// Allocations to place, by the position of their group in the job's current version.
    pub missing: Vec<(u16, Missing)>,
    /// The earliest time at which a failed allocation may be replaced that may not be yet.
    pub retry_at: Option<Timestamp>,
}

/// An allocation to place.
#[derive(Debug, Clone, Default)]
pub struct Missing {
    /// Where it may go.
    pub ask: Ask,
    /// Whom it replaces.
    pub previous: Option<AllocId>,
    /// When it replaces a failed one: the times of the replacements that count, this one included.
    pub reschedules: Vec<Timestamp>,
}

/// One allocation of the job, with what its own version of the job says of it.
struct Existing<'a> {
    slot: AllocSlot,
    row: &'a AllocRow,
    group: &'a str,
    /// Its group is still there and still says the same.
    is_current: bool,
    node_gone: bool,
}

/// Compares a job's wishes with its allocations.
pub fn reconcile(store: &Store, row: &JobRow, now: Timestamp) -> Changes {
    let job = row.job();
    let mut changes = Changes::default();
    let existing: Vec<Existing<'_>> = existing(store, row, job);
    // A job that only makes jobs has no allocations of its own: those of an older version have no use any more.
    if job.stop || job.only_launches() {
        stop_all(&existing, StopReason::JobStopped, &mut changes);
        return changes;
    }
    let orphans = existing.iter().filter(|e| job.group(e.group).is_none());
    for orphan in orphans.filter(|e| e.row.is_wanted()) {
        changes.stops.push(stop(orphan, StopReason::NotNeeded));
    }
    for (position, group) in (0..).zip(&job.groups) {
        let mut of_group: Vec<&Existing<'_>> = existing.iter().filter(|e| e.group == group.name).collect();
        of_group.sort_unstable_by_key(|e| (e.row.name_index, e.row.create_index, e.row.id));
        if job.job_type.is_per_node() {
            per_node::reconcile(store, (job, position, group), &of_group, &mut changes);
        } else {
            group::reconcile(store, (job, position, group), &of_group, now, &mut changes);
        }
    }
    changes
}

fn existing<'a>(store: &'a Store, row: &'a JobRow, job: &'a Job) -> Vec<Existing<'a>> {
    let rows = store.jobs().allocs(row).filter_map(|slot| Some((slot, store.allocs().row(slot)?)));
    rows.filter_map(|(slot, alloc)| {
        let (old_job, old_group) = store.job_of(alloc)?;
        let newest = job.group(&old_group.name).map(|(_, group)| group);
        let is_current = alloc.job_version == row.current().version
            || newest.is_some_and(|group| runs_the_same(old_job, old_group, job, group));
        let node_gone = store
            .nodes()
            .row(alloc.node)
            .is_none_or(|node| node.status == berth_model::node::NodeStatus::Down);
        Some(Existing { slot, row: alloc, group: &old_group.name, is_current, node_gone })
    })
    .collect()
}

/// Whether an allocation of the old wishes can stand for one of the new: only how many are wanted, or how and when they
/// are replaced, may differ.
fn runs_the_same(
    old_job: &Job,
    old: &berth_model::job::Group,
    job: &Job,
    new: &berth_model::job::Group,
) -> bool {
    let where_and_what = |job: &Job| {
        (
            job.job_type,
            job.node_pool.clone(),
            job.datacenters.clone(),
            job.meta.clone(),
            job.constraints.clone(),
        )
    };
    let alike = berth_model::job::Group {
        count: old.count,
        reschedule: old.reschedule,
        spreads: old.spreads.clone(),
        update: old.update.clone(),
        migrate: old.migrate.clone(),
        disconnect: old.disconnect.clone(),
        scaling: old.scaling.clone(),
        ..new.clone()
    };
    where_and_what(old_job) == where_and_what(job) && alike == *old
}

fn stop_all(existing: &[Existing<'_>], reason: StopReason, changes: &mut Changes) {
    let wanted = existing.iter().filter(|e| e.row.is_wanted());
    changes.stops.extend(wanted.map(|e| stop(e, if e.node_gone { StopReason::NodeLost } else { reason })));
    lose_ending(existing.iter(), changes);
}

fn stop(existing: &Existing<'_>, reason: StopReason) -> Stop {
    Stop { alloc: existing.row.id, reason }
}

/// Allocations that were to end on a node that is gone have ended.
fn lose_ending<'a, 'b: 'a>(existing: impl Iterator<Item = &'a Existing<'b>>, changes: &mut Changes) {
    let ending = existing.filter(|e| !e.row.is_terminal() && !e.row.is_wanted() && e.node_gone);
    changes.stops.extend(ending.map(|e| stop(e, StopReason::NodeLost)));
}

/// The allocations of a job that stay after `stops`.
pub fn staying(store: &Store, row: &JobRow, stops: &[Stop]) -> Vec<There> {
    let stopped: HashSet<AllocId> = stops.iter().map(|stop| stop.alloc).collect();
    let rows = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
    rows.filter(|alloc| alloc.is_wanted() && !stopped.contains(&alloc.id))
        .map(|alloc| {
            let group = store.job_of(alloc).and_then(|(_, group)| row.job().group(&group.name));
            There { node: alloc.node, group: group.map(|(position, _)| position) }
        })
        .collect()
}

//! Allocations of nodes that are disconnected, or were: who stands in for whom, and who stays once both are there.

use std::collections::BTreeMap;

use berth_model::{
    AllocId, Timestamp,
    alloc::StopReason,
    job::{Disconnect, Group, Job, Reconcile},
    observed::{Observed, ObservedTask, TaskState},
    store::{AllocRow, AllocSlot, NodeSlot, Store, Whereabouts},
};

use super::{Changes, Existing, is_replaced, stop};
use crate::scores::{AffinityScore, Mean, Powers, bin_pack};

/// The earliest time at which one that counts as unknown is lost.
pub(super) fn lost_at(existing: &[Existing<'_>]) -> Option<Timestamp> {
    let unknown = existing.iter().filter(|e| e.row.is_wanted());
    let times = unknown.filter_map(|e| match e.whereabouts {
        Whereabouts::Unknown(until) => until,
        _ => None,
    });
    times.min()
}

/// What is left of a group's allocations once it is settled who stays of those that were replaced while their node was
/// disconnected.
pub(super) struct Settled<'e, 'a> {
    /// All but those that end now, and those that another stands in for.
    pub staying: Vec<&'e Existing<'a>>,
}

/// Settles it.
pub(super) fn settle<'e, 'a>(
    store: &Store,
    (job, group): (&Job, &Group),
    existing: Vec<&'e Existing<'a>>,
    changes: &mut Changes,
) -> Settled<'e, 'a> {
    let is_stood_in_for = |e: &Existing<'_>| e.row.is_wanted() && is_replaced(store, e);
    if !existing.iter().any(|e| is_stood_in_for(e)) {
        return Settled { staying: existing };
    }
    let policy = group.on_disconnect();
    let by_id: BTreeMap<AllocId, &Existing<'_>> = existing.iter().map(|e| (e.row.id, *e)).collect();
    let mut leaving: BTreeMap<AllocId, Option<StopReason>> = BTreeMap::new();
    for original in existing.iter().filter(|e| is_stood_in_for(e)) {
        let replacement = stand_in(store, &by_id, original);
        match (original.must_go(), replacement) {
            (Some(reason), _) => drop(leaving.insert(original.row.id, Some(reason))),
            (None, _) if original.is_unknown() => drop(leaving.insert(original.row.id, None)),
            (None, None) => {}
            (None, Some(replacement)) => {
                if keeps_original(store, (job, group), &policy, original, replacement) {
                    leaving.insert(replacement.row.id, Some(StopReason::OriginalKept));
                } else {
                    leaving.insert(original.row.id, Some(StopReason::ReplacementKept));
                }
            }
        }
    }
    let (leaves, staying): (Vec<_>, Vec<_>) =
        existing.into_iter().partition(|e| leaving.contains_key(&e.row.id));
    let ends = leaves.into_iter().filter_map(|e| Some(stop(e, leaving[&e.row.id]?)));
    changes.stops.extend(ends);
    Settled { staying }
}

/// The allocation that runs in an allocation's stead, itself or after others that failed.
fn stand_in<'e, 'a>(
    store: &Store,
    by_id: &BTreeMap<AllocId, &'e Existing<'a>>,
    original: &Existing<'_>,
) -> Option<&'e Existing<'a>> {
    let next = |slot| store.allocs().extra(slot).and_then(|extra| by_id.get(&extra.next?).copied());
    std::iter::successors(next(original.slot), |e| next(e.slot)).find(|e| e.row.is_wanted())
}

fn keeps_original(
    store: &Store,
    about: (&Job, &Group),
    policy: &Disconnect,
    original: &Existing<'_>,
    replacement: &Existing<'_>,
) -> bool {
    if replacement.is_silent || replacement.must_go().is_some() {
        return true;
    }
    if replacement.row.job_version > original.row.job_version || original.migrate.is_some() {
        return false;
    }
    match policy.reconcile {
        Reconcile::KeepOriginal => true,
        Reconcile::KeepReplacement => false,
        Reconcile::LongestRunning => {
            // Whoever runs goes before one that has still to start; of two of which nothing is known the first placed.
            let since = |of: &Existing<'_>| (of.runs_since.unwrap_or(Timestamp::NEVER), of.row.create_index);
            since(original) <= since(replacement)
        }
        Reconcile::BestScore => {
            score(store, about, original.row.node) >= score(store, about, replacement.row.node)
        }
    }
}

/// Since when an allocation runs, where who runs longest stays: its leader, or the task that runs longest. What started
/// again began anew.
pub(super) fn runs_since(
    observed: &Observed,
    (slot, row): (AllocSlot, &AllocRow),
    group: &Group,
) -> Option<Timestamp> {
    let policy = group.disconnect.as_ref()?.reconcile;
    let seen =
        observed.get(slot, row.id).filter(|_| policy == Reconcile::LongestRunning && row.is_wanted())?;
    let leads = |name: &str| group.tasks.iter().any(|task| task.leader && task.name == name);
    let running = || seen.alloc.tasks.iter().filter(|task| task.state == TaskState::Running);
    let since = |task: &ObservedTask| task.started_at.max(task.last_restart);
    let leader = running().find(|task| leads(&task.name)).map(since);
    leader.or_else(|| running().map(since).min())
}

/// How good the node of an allocation that is there already is for its group.
fn score(store: &Store, (job, group): (&Job, &Group), slot: NodeSlot) -> f64 {
    let (Some(row), Some(detail)) = (store.nodes().row(slot), store.nodes().detail(slot)) else { return 0.0 };
    let ask = group.resources_on(&detail.node);
    // As if it were to be placed there now.
    let free = row.free().plus(ask);
    let algorithm = store.scheduler_config().algorithm(&job.node_pool);
    let packing = bin_pack(algorithm, Powers::of(free, row.capacity), Powers::of(ask, row.capacity));
    Mean::PACKING_ALONE.with(AffinityScore::of(job, group).score(&detail.node)).of(packing)
}

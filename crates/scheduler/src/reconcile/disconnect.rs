//! Allocations of nodes that are disconnected, or were: who stands in for whom, and who stays once both are there.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocId, Timestamp,
    alloc::StopReason,
    job::{Disconnect, Group, Job, Reconcile},
    observed::{Observed, ObservedTask, TaskState},
    store::{AllocRow, AllocSlot, Reachability, Store},
};

use super::{ExistingAlloc, JobChanges, group_scorer::GroupScorer, stop};

/// The earliest time at which one that counts as unknown is lost.
pub(super) fn lost_at(existing: &[ExistingAlloc<'_>]) -> Option<Timestamp> {
    let unknown = existing.iter().filter(|e| e.row.is_desired());
    let times = unknown.filter_map(|e| match e.reachability {
        Reachability::Disconnected(until) => until,
        _ => None,
    });
    times.min()
}

/// What is left of a group's allocations once it is settled who stays of those that were replaced while their node was
/// disconnected.
pub(super) struct SettledAllocs<'e, 'a> {
    /// All but those that end now, and those that another stands in for.
    pub staying: Vec<&'e ExistingAlloc<'a>>,
}

/// Decides for each replaced allocation whether it or its replacement stays.
pub(super) fn settle<'e, 'a>(
    store: &Store,
    (job, group): (&Job, &Group),
    existing: Vec<&'e ExistingAlloc<'a>>,
    changes: &mut JobChanges,
) -> SettledAllocs<'e, 'a> {
    let is_stood_in_for = |e: &ExistingAlloc<'_>| e.row.is_desired() && e.is_replaced();
    if !existing.iter().any(|e| is_stood_in_for(e)) {
        return SettledAllocs { staying: existing };
    }
    let policy = group.on_disconnect();
    let by_id: BTreeMap<AllocId, &ExistingAlloc<'_>> = existing.iter().map(|e| (e.row.id, *e)).collect();
    let originals = existing.iter().copied().filter(|e| is_stood_in_for(e));
    let pairs: Vec<_> = originals.map(|e| (e, StandIns::of(&by_id, e))).collect();
    let mut standing = GroupScorer::of(store, (job, group));
    if pairs.iter().any(|(original, _)| !original.is_unknown()) {
        let paired: BTreeSet<AllocId> = pairs
            .iter()
            .flat_map(|(e, others)| [Some(*e), others.last])
            .flatten()
            .map(|e| e.row.id)
            .collect();
        let others = existing.iter().filter(|e| e.row.is_desired() && !paired.contains(&e.row.id));
        others.for_each(|e| standing.add(e.row.node));
    }
    let mut leaving: BTreeMap<AllocId, Option<StopReason>> = BTreeMap::new();
    for (original, StandIns { unknown, last }) in pairs {
        // It stood in for one that goes on.
        if leaving.contains_key(&original.row.id) {
            continue;
        }
        let (goes, reason, stays) = match (original.must_go(), last) {
            (Some(reason), _) => (Some(original), Some(reason), last),
            (None, _) if original.is_unknown() => (Some(original), None, last),
            (None, Some(other)) if keeps_original(&policy, &standing, original, other) => {
                let between = unknown.into_iter().map(|e| (e.row.id, Some(StopReason::OriginalKept)));
                leaving.extend(between);
                (Some(other), Some(StopReason::OriginalKept), Some(original))
            }
            (None, Some(_)) => (Some(original), Some(StopReason::ReplacementKept), last),
            (None, None) => (None, None, Some(original)),
        };
        goes.and_then(|e| leaving.insert(e.row.id, reason));
        // Those that are decided on after it find it there.
        stays.into_iter().for_each(|e| standing.add(e.row.node));
    }
    let (leaves, staying): (Vec<_>, Vec<_>) =
        existing.into_iter().partition(|e| leaving.contains_key(&e.row.id));
    let ends = leaves.into_iter().filter_map(|e| Some(stop(e, leaving[&e.row.id]?)));
    changes.stops.extend(ends);
    SettledAllocs { staying }
}

/// The allocations that were placed in an allocation's stead and are wanted still.
struct StandIns<'e, 'a> {
    /// Those whose nodes are disconnected too, and for which another stands in.
    unknown: Vec<&'e ExistingAlloc<'a>>,
    /// The one that runs, itself or after others that failed.
    last: Option<&'e ExistingAlloc<'a>>,
}

impl<'e, 'a> StandIns<'e, 'a> {
    fn of(by_id: &BTreeMap<AllocId, &'e ExistingAlloc<'a>>, original: &ExistingAlloc<'_>) -> Self {
        let next = |e: &ExistingAlloc<'_>| by_id.get(&e.extra?.next?).copied();
        let mut unknown = Vec::new();
        for e in std::iter::successors(next(original), |e| next(e)).filter(|e| e.row.is_desired()) {
            if !e.is_unknown() || !e.is_replaced() {
                return Self { unknown, last: Some(e) };
            }
            unknown.push(e);
        }
        // The last one that was placed has failed.
        let last = unknown.pop();
        Self { unknown, last }
    }
}

fn keeps_original(
    policy: &Disconnect,
    standing: &GroupScorer<'_>,
    original: &ExistingAlloc<'_>,
    replacement: &ExistingAlloc<'_>,
) -> bool {
    if replacement.is_silent || replacement.must_go().is_some() {
        return true;
    }
    if replacement.row.job_version > original.row.job_version || original.migrate().is_some() {
        return false;
    }
    match policy.reconcile {
        Reconcile::KeepOriginal => true,
        Reconcile::KeepReplacement => false,
        Reconcile::LongestRunning => match (original.runs_since, replacement.runs_since) {
            (None, None) => scores_no_worse(standing, original, replacement),
            // Whoever runs goes before one that has still to start.
            (original, replacement) => {
                original.unwrap_or(Timestamp::NEVER) <= replacement.unwrap_or(Timestamp::NEVER)
            }
        },
        // What runs is not given up for what has still to start, however good its node is.
        Reconcile::BestScore => {
            original.runs_since.is_some() && replacement.runs_since.is_none()
                || scores_no_worse(standing, original, replacement)
        }
    }
}

fn scores_no_worse(
    standing: &GroupScorer<'_>,
    original: &ExistingAlloc<'_>,
    replacement: &ExistingAlloc<'_>,
) -> bool {
    standing.score(original.row.node) >= standing.score(replacement.row.node)
}

/// Since when an allocation runs, where that decides who stays: its leader, or the task that runs longest. What started
/// again began again.
pub(super) fn runs_since(
    observed: &Observed,
    (slot, row): (AllocSlot, &AllocRow),
    group: &Group,
) -> Option<Timestamp> {
    let policy = group.disconnect.as_ref()?.reconcile;
    let matters = matches!(policy, Reconcile::LongestRunning | Reconcile::BestScore) && row.is_desired();
    let seen = observed.get(slot, row.id).filter(|_| matters)?;
    let leads = |name: &str| group.tasks.iter().any(|task| task.leader && task.name == name);
    let running = || seen.alloc.tasks.iter().filter(|task| task.state == TaskState::Running);
    let since = |task: &ObservedTask| task.started_at.max(task.last_restart);
    let leader = running().find(|task| leads(&task.name)).map(since);
    leader.or_else(|| running().map(since).min())
}

//! A group of a system job: one allocation on each node that can run it.

use std::collections::BTreeSet;

use berth_model::{
    AllocId, Timestamp,
    alloc::{ClientStatus, StopReason},
    job::Group,
    store::{JobRow, NodeRow, NodeSlot, Store},
};

use super::{
    ExistingAlloc, JobChanges, MissingAlloc, ReplacedAlloc,
    missing::{FreshAllocs, MissingAllocs},
    rollout::{CanaryState, Rollout},
    stop,
};
use crate::{filters::Filters, place::Ask};

pub(super) fn reconcile(
    store: &Store,
    (row, position, group): (&JobRow, u16, &Group),
    existing: &[&ExistingAlloc<'_>],
    (now, replacements_max): (Timestamp, usize),
    changes: &mut JobChanges,
) {
    let (job, rollout) = (row.job(), Rollout::of(store, row, group));
    let filters = Filters::of_what_runs(job, group);
    let fits = |slot| store.nodes().detail(slot).is_some_and(|detail| filters.check(&detail.node).is_ok());
    let takes_work = |slot| store.nodes().row(slot).is_some_and(NodeRow::is_ready);
    let mut covered: BTreeSet<NodeSlot> = BTreeSet::new();
    let mut old: Vec<&ExistingAlloc<'_>> = Vec::new();
    let mut outdated: Vec<AllocId> = Vec::new();
    let (mut live, mut unproven, mut is_unhealthy) = (0, 0, false);
    let mut canaries = 0;
    let (ended, not_ended): (Vec<_>, Vec<_>) =
        existing.iter().copied().partition(|alloc| alloc.row.is_terminal());
    for alloc in not_ended {
        let node = alloc.row.node;
        if !alloc.row.is_desired() {
            continue;
        } else if alloc.is_gone() {
            changes.stops.push(stop(alloc, StopReason::NodeLost));
        } else if group.count == 0 {
            changes.stops.push(stop(alloc, StopReason::NotNeeded));
        } else if alloc.migrate().is_some() {
            changes.stops.push(stop(alloc, StopReason::Drained));
        } else if !fits(node) || covered.contains(&node) {
            changes.stops.push(stop(alloc, StopReason::NodeNotEligible));
        } else {
            covered.insert(node);
            if !alloc.is_current && !takes_work(node) {
                // It is replaced once its node is back, or takes new work again.
                continue;
            }
            live += 1;
            if !alloc.is_current {
                old.push(alloc);
                continue;
            }
            if alloc.is_outdated {
                unproven += 1;
                outdated.push(alloc.row.id);
                continue;
            }
            canaries += u32::from(rollout.canary(alloc) == CanaryState::Open);
            // Nobody on a silent node reports how it is: the others do not wait for that.
            if !alloc.is_silent && !store.is_healthy_if_carried(alloc.slot) {
                match store.allocs().detail(alloc.slot).and_then(|detail| detail.healthy) {
                    Some(_) => is_unhealthy = true,
                    None => unproven += 1,
                }
            }
        }
    }
    // What was lost with its node is wanted again there; what ended by itself is not started again. Where another runs by now, as on a
    // rollback to the version of which this one was, that one goes on, or is replaced.
    for alloc in ended.into_iter().filter(|alloc| alloc.is_current && alloc.row.ended_by_itself()) {
        if covered.insert(alloc.row.node) {
            // What failed before this version was rolled out says nothing of it.
            let is_own = alloc.row.job_version == row.current().version;
            is_unhealthy |= is_own && alloc.row.client == ClientStatus::Failed;
        }
    }
    let fresh = if group.count == 0 { FreshAllocs::Nothing } else { FreshAllocs::OnNodes { covered } };
    let mut missing = MissingAllocs { version: None, group: position, replacing: Vec::new(), fresh };
    let wanted_canaries = rollout.node_canaries(old.len());
    let limit = match rollout.limit() {
        None => usize::MAX,
        // Once the version has proved itself, one that fails later keeps no node that is back, or open again, with an older one.
        Some(_) if is_unhealthy && !rollout.is_through() => 0,
        Some(_) if wanted_canaries > 0 && !rollout.may_place_canaries() => 0,
        Some(_) if wanted_canaries > 0 => wanted_canaries.saturating_sub(canaries) as usize,
        Some(limit) => limit.saturating_sub(unproven) as usize,
    };
    if rollout.is_held() {
        outdated.clear();
    }
    changes.more |= outdated.len() > replacements_max;
    outdated.truncate(replacements_max);
    let replacements_max = replacements_max - outdated.len();
    changes.updates.extend(outdated);
    let mut limit = limit.min(old.len());
    if let Some(until) = rollout.stagger_until(existing).filter(|until| limit > 0 && *until > now) {
        changes.stagger_until = changes.stagger_until.into_iter().chain([until]).min();
        limit = 0;
    }
    changes.more |= limit > replacements_max;
    if rollout.limit().is_some() {
        // Those that stay old for now are counted too: each of them must be of this version in the end.
        let desired = u32::try_from(live + missing.count(store, job, group)).unwrap_or(u32::MAX);
        changes.deployment.extend(rollout.begin(desired, wanted_canaries, existing));
    }
    let replaced = old.into_iter().take(limit.min(replacements_max));
    missing.replacing = replaced.map(|alloc| updated(alloc, wanted_canaries > 0)).collect();
    changes.missing.push(missing);
}

/// Its successor, on the same node: there is one on each, so that canaries replace what they are to be compared with.
fn updated(alloc: &ExistingAlloc<'_>, canary: bool) -> MissingAlloc {
    MissingAlloc {
        ask: Ask { name_index: alloc.row.name_index, only: Some(alloc.row.node), ..Ask::default() },
        previous: Some(alloc.row.id),
        instead: Some(ReplacedAlloc::of(alloc, StopReason::JobUpdated)),
        canary,
        ..MissingAlloc::default()
    }
}

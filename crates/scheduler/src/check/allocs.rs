//! Which allocations there are to be, and which are to end: as many as desired, each once, where they can run.

use std::collections::{BTreeMap, HashSet};

use berth_model::{
    AllocId,
    alloc::{Stop, StopReason},
    store::NodeSlot,
};

use super::{CheckedPlan, PlanFaults};
use crate::filters::Filters;

pub(super) fn check(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    whole(checked, faults);
    stops(checked, faults);
    succeeded(checked, faults);
    stand_ins(checked, faults);
    nodes(checked, faults);
    counts(checked, faults);
    names(checked, faults);
}

fn whole(CheckedPlan { plan, job, .. }: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    if plan.charges.len() != plan.placements.len() {
        faults.add(format!("{} charges for {} placements", plan.charges.len(), plan.placements.len()));
    }
    if job.stop && !plan.placements.is_empty() {
        faults.add("it places allocations of a stopped job".to_owned());
    }
    if job.all_at_once && !plan.failures.is_empty() && !plan.placements.is_empty() {
        faults.add("it places some of what was asked for all or nothing".to_owned());
    }
    let mut ids = HashSet::new();
    for placement in plan.placements.iter().filter(|placement| !ids.insert(placement.id)) {
        faults.add(format!("allocation {} is placed twice", placement.id));
    }
}

fn stops(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let mut seen = HashSet::new();
    for stop in &checked.plan.stops {
        let Some((_, row)) = checked.store.alloc(stop.alloc).filter(|(_, row)| !row.is_terminal()) else {
            faults.add(format!("allocation {} is stopped, and does not live", stop.alloc));
            continue;
        };
        if !seen.insert(stop.alloc) {
            faults.add(format!("allocation {} is stopped twice", stop.alloc));
        }
        let own = checked.store.jobs().find(&checked.plan.job) == Some(row.job);
        if !own && stop.reason != StopReason::Preempted {
            faults.add(format!("allocation {} of another job is stopped", stop.alloc));
        }
        migrated(checked, stop, faults);
    }
}

/// Whoever has a successor ends, unless nobody knows how it is.
fn stand_ins(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    for placement in &checked.plan.placements {
        let Some((_, row)) = placement.previous.and_then(|id| checked.store.alloc(id)) else { continue };
        let goes_on = row.is_desired() && !checked.is_stopped(row.id);
        if goes_on && !checked.is_stood_in_for(row) {
            faults.add(format!("allocation {} goes on, and has a successor", row.id));
        }
    }
}

/// What leaves a node that is drained was asked to; unless it must not stay, another stands in for it.
fn migrated(checked: &CheckedPlan<'_>, stop: &Stop, faults: &mut PlanFaults) {
    let allocs = checked.store.allocs();
    let is_migrating = || allocs.find(stop.alloc).and_then(|slot| allocs.extra(slot)?.migrate).is_some();
    let drained = matches!(stop.reason, StopReason::Migrated | StopReason::Drained);
    if drained && !is_migrating() {
        faults.add(format!("allocation {} is moved, and was not asked to migrate", stop.alloc));
    }
}

/// Who is stopped only for the sake of another has that one.
fn succeeded(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let replaced: HashSet<AllocId> = checked.plan.placements.iter().filter_map(|p| p.previous).collect();
    let is_alone = |stop: &&Stop| stop.reason.needs_successor() && !replaced.contains(&stop.alloc);
    for stop in checked.plan.stops.iter().filter(is_alone) {
        faults.add(format!("allocation {} is replaced, and has no successor", stop.alloc));
    }
}

fn nodes(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let newest: Vec<Filters> =
        checked.job.groups.iter().map(|group| Filters::of(checked.job, group)).collect();
    for placement in &checked.plan.placements {
        let older = || checked.spec(placement).map(|(job, group)| Filters::of(job, group));
        let older = placement.job_version.and_then(|_| older());
        let filters = match placement.job_version {
            None => newest.get(usize::from(placement.group)),
            Some(_) => older.as_ref(),
        };
        let (Some(slot), Some(filters)) = (checked.node(placement.node), filters) else {
            faults.add(format!("allocation {} is of no group or on no node", placement.id));
            continue;
        };
        let nodes = checked.store.nodes();
        if !nodes.row(slot).is_some_and(|row| row.is_ready()) {
            faults.add(format!("node {} is not ready for new allocations", placement.node));
        }
        if let Some(Err(refused)) = nodes.detail(slot).map(|detail| filters.check(&detail.node)) {
            faults.add(format!("node {} cannot run group {}: {refused:?}", placement.node, placement.group));
        }
    }
}

fn counts(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let mut by_group: BTreeMap<u16, u32> = BTreeMap::new();
    let mut by_node: BTreeMap<(u16, NodeSlot), u32> = BTreeMap::new();
    // Canaries stand beside what is desired.
    let placed = checked.plan.placements.iter().filter(|placement| !placement.canary);
    let placed = placed.filter_map(|p| Some((checked.node(p.node)?, checked.position(p)?)));
    let staying = checked.staying().into_iter().map(|(node, group, _)| (node, group));
    for (node, group) in staying.chain(placed) {
        *by_group.entry(group).or_default() += 1;
        *by_node.entry((group, node)).or_default() += 1;
    }
    if checked.job.job_type.is_per_node() {
        for ((group, _), count) in by_node.into_iter().filter(|(_, count)| *count > 1) {
            faults.add(format!("{count} allocations of group {group} on one node"));
        }
        for (position, count) in by_group {
            if checked.group(position).is_some_and(|group| group.count == 0) {
                faults.add(format!("{count} allocations of group {position}, which wants none"));
            }
        }
        return;
    }
    for (position, count) in by_group {
        let desired = checked.group(position).map_or(0, |group| group.count);
        // A plan without placements may find more than wanted that cannot be stopped before others run.
        if count > desired && !checked.plan.placements.is_empty() {
            faults.add(format!("{count} allocations of group {position}, which wants {desired}"));
        }
    }
}

fn names(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    if checked.job.job_type.is_per_node() {
        return;
    }
    let staying = checked.staying().into_iter().map(|(_, group, name)| (group, name));
    let mut taken: HashSet<(u16, u32)> = staying.collect();
    for placement in checked.plan.placements.iter().filter(|placement| !placement.canary) {
        let position = checked.position(placement).unwrap_or(placement.group);
        if !taken.insert((position, placement.name_index)) {
            faults.add(format!("two allocations [{}] of group {}", placement.name_index, placement.group));
        }
    }
}

//! Desired state against what is there: which allocations to end, and which are missing.

mod disconnect;
mod group;
mod group_scorer;
mod in_place;
mod missing;
mod names;
mod per_node;
mod reschedule;
mod rollout;

use std::collections::{BTreeMap, HashSet};

use berth_model::{
    AllocId, Timestamp,
    alloc::{Departure, Reschedule, Stop, StopReason},
    deployment::DeploymentGroup,
    job::{Job, VersionChange},
    observed::Observed,
    store::{AllocExtra, AllocRow, AllocSlot, JobRow, NodeSlot, Reachability, Store},
};

use crate::{
    budget::{Cancelled, Meter},
    place::{Ask, PeerAlloc},
};
use in_place::NewestVersion;
pub use missing::MissingAllocs;
use reschedule::ForcedReschedule;
pub use reschedule::failed_for_good;

/// What a job needs.
#[derive(Debug, Default)]
pub struct JobChanges {
    /// Allocations to end.
    pub stops: Vec<Stop>,
    /// Allocations that are to go on where they are under the newest version.
    pub updates: Vec<AllocId>,
    /// Allocations to place, a group of the job's current version after the other.
    pub missing: Vec<MissingAllocs>,
    /// Allocations that are to be replaced or updated besides, once these are.
    pub more: bool,
    /// The groups of the deployment that is to be made for the job's version; empty for none.
    pub deployment: Vec<DeploymentGroup>,
    /// The earliest time at which a failed allocation may be replaced that may not be yet.
    pub retry_at: Option<Timestamp>,
    /// The earliest time at which the update of a job that runs on each node may go on, that could go on but for its
    /// `stagger`.
    pub stagger_until: Option<Timestamp>,
    /// The earliest time at which an allocation of a disconnected node counts as lost that does not yet.
    pub lost_at: Option<Timestamp>,
}

/// An allocation to place.
#[derive(Debug, Clone, Default)]
pub struct MissingAlloc {
    /// Where it may go.
    pub ask: Ask,
    /// The allocation that it replaces, if any.
    pub previous: Option<AllocId>,
    /// When it replaces a failed one: the replacements that count, this one included.
    pub reschedules: Vec<Reschedule>,
    /// Who ends once this one has capacity, and stays as long as it has none.
    pub instead: Option<ReplacedAlloc>,
    /// It stands beside the old allocations until its group is promoted.
    pub canary: bool,
    /// The older version of the job that it is to run, with the position of its group there.
    pub of_version: Option<(u64, u16)>,
}

/// An allocation that goes on until its successor has capacity, which may be its own.
#[derive(Debug, Clone, Copy)]
pub struct ReplacedAlloc {
    /// The allocation.
    pub slot: AllocSlot,
    /// Its node.
    pub node: NodeSlot,
    /// Its end, once the successor is placed.
    pub stop: Stop,
}

impl ReplacedAlloc {
    fn of(alloc: &ExistingAlloc<'_>, reason: StopReason) -> Self {
        Self { slot: alloc.slot, node: alloc.row.node, stop: stop(alloc, reason) }
    }
}

/// One allocation of the job, with what its own version of the job says of it.
struct ExistingAlloc<'a> {
    slot: AllocSlot,
    row: &'a AllocRow,
    group: &'a str,
    /// Its group is still there, and what it says now needs no other allocation.
    is_current: bool,
    /// It has yet to be sent what its group says now.
    is_outdated: bool,
    /// Of one that has not ended.
    reachability: Reachability,
    /// Nobody on its node will report its end.
    is_silent: bool,
    /// What not every allocation has.
    extra: Option<&'a AllocExtra>,
    /// As its agent saw it, where that decides who stays.
    runs_since: Option<Timestamp>,
}

impl ExistingAlloc<'_> {
    /// Why it cannot stay, whether another stands in for it or not.
    fn must_go(&self) -> Option<StopReason> {
        let drained = self.migrate() == Some(Departure::AtOnce);
        if self.is_gone() { Some(StopReason::NodeLost) } else { drained.then_some(StopReason::Drained) }
    }

    /// Whether it is to leave its node, and how.
    fn migrate(&self) -> Option<Departure> {
        self.extra?.migrate
    }

    /// Whether another was placed in its stead.
    fn is_replaced(&self) -> bool {
        self.extra.is_some_and(|extra| extra.next.is_some())
    }

    fn is_gone(&self) -> bool {
        self.reachability == Reachability::Lost
    }

    fn is_unknown(&self) -> bool {
        matches!(self.reachability, Reachability::Disconnected(_))
    }
}

impl JobChanges {
    /// Allocations that the changes replace or update.
    fn touched(&self) -> usize {
        self.missing.iter().map(|group| group.replacing.len()).sum::<usize>() + self.updates.len()
    }
}

/// Compares a job's specification with its allocations. What is to be replaced beyond the meter's budget is left as it is
/// for now. Nothing that waits for the return of its node counts as lost before `awaited_until`.
///
/// # Errors
/// When the plan was cancelled.
pub(crate) fn reconcile(
    store: &Store,
    observed: &Observed,
    row: &JobRow,
    (now, awaited_until): (Timestamp, Timestamp),
    meter: &mut Meter<'_>,
) -> Result<JobChanges, Cancelled> {
    let job = row.job();
    let mut changes = JobChanges::default();
    let existing: Vec<ExistingAlloc<'_>> = existing((store, observed), row, (now, awaited_until));
    meter.take(existing.len() + job.groups.len())?;
    lose_ending(&existing, &mut changes);
    // A job that only makes jobs has no allocations of its own: those of an older version have no use any more.
    if job.stop || job.only_launches() {
        stop_all(&existing, StopReason::JobStopped, &mut changes);
        return Ok(changes);
    }
    let mut by_group: BTreeMap<&str, Vec<&ExistingAlloc<'_>>> =
        job.groups.iter().map(|group| (group.name.as_str(), Vec::new())).collect();
    for one in &existing {
        match by_group.get_mut(one.group) {
            Some(of_group) => of_group.push(one),
            None if one.row.is_desired() => changes.stops.push(stop(one, StopReason::NotNeeded)),
            None => {}
        }
    }
    changes.lost_at = disconnect::lost_at(&existing);
    let forced = ForcedReschedule::of(store, row);
    for (position, group) in (0..).zip(&job.groups) {
        let mut of_group = by_group.remove(group.name.as_str()).unwrap_or_default();
        sort_by_name(&mut of_group);
        let replacements_max = meter.budget().placements.saturating_sub(changes.touched());
        if job.job_type.is_per_node() {
            per_node::reconcile(
                store,
                (row, position, group),
                &of_group,
                (now, replacements_max),
                &mut changes,
            );
        } else {
            let pass = (now, replacements_max, &forced);
            group::reconcile(store, (row, position, group), &of_group, pass, &mut changes);
        }
    }
    Ok(changes)
}

/// By name, and those that share one by age. Few do: what comes after the name is not looked at for the others.
fn sort_by_name(existing: &mut [&ExistingAlloc<'_>]) {
    let age = |e: &ExistingAlloc<'_>| (e.row.create_index, e.row.id);
    existing
        .sort_unstable_by(|a, b| a.row.name_index.cmp(&b.row.name_index).then_with(|| age(a).cmp(&age(b))));
}

fn existing<'a>(
    (store, observed): (&'a Store, &Observed),
    row: &'a JobRow,
    (now, awaited_until): (Timestamp, Timestamp),
) -> Vec<ExistingAlloc<'a>> {
    let newest = NewestVersion::of(store, row);
    let rows = store.jobs().allocs(row).filter_map(|slot| Some((slot, store.allocs().row(slot)?)));
    rows.filter_map(|(slot, alloc)| {
        let old_group = row.group_of(alloc)?;
        let change = newest.change(alloc, &old_group.name);
        let is_silent = store.nodes().row(alloc.node).is_none_or(|node| node.status.is_silent());
        let reachability =
            if is_silent { store.reachability(alloc, now, awaited_until) } else { Reachability::Reachable };
        Some(ExistingAlloc {
            slot,
            row: alloc,
            group: &old_group.name,
            is_current: change != VersionChange::Replacement,
            is_outdated: change == VersionChange::InPlace,
            reachability,
            is_silent,
            extra: store.allocs().extra(slot),
            runs_since: disconnect::runs_since(observed, (slot, alloc), old_group),
        })
    })
    .collect()
}

fn stop_all(existing: &[ExistingAlloc<'_>], reason: StopReason, changes: &mut JobChanges) {
    let desired = existing.iter().filter(|e| e.row.is_desired());
    changes.stops.extend(desired.map(|e| stop(e, reason)));
}

/// What is to end on a silent node has ended: its agent ends it once it is heard again, and reports to nobody before.
fn stop(existing: &ExistingAlloc<'_>, reason: StopReason) -> Stop {
    let lost = existing.is_silent && reason != StopReason::OriginalKept;
    Stop {
        alloc: existing.row.id,
        reason: if lost { StopReason::NodeLost } else { reason },
        observed_at: None,
    }
}

/// Allocations that were to end on a node that is silent have ended, also those of groups that the job has no more.
fn lose_ending(existing: &[ExistingAlloc<'_>], changes: &mut JobChanges) {
    let ending = existing.iter().filter(|e| !e.row.is_terminal() && !e.row.is_desired() && e.is_silent);
    changes.stops.extend(ending.map(|e| stop(e, StopReason::NodeLost)));
}

/// The allocations of a job that stay after `stops`, with the positions of their groups in `job`, a version of it.
pub fn staying(store: &Store, row: &JobRow, job: &Job, stops: &[Stop]) -> Vec<PeerAlloc> {
    let stopped: HashSet<AllocId> = stops.iter().map(|stop| stop.alloc).collect();
    let rows = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
    rows.filter(|alloc| alloc.is_desired() && !stopped.contains(&alloc.id))
        .map(|alloc| {
            let group = row.group_of(alloc).and_then(|group| job.group(&group.name));
            PeerAlloc { node: alloc.node, group: group.map(|(position, _)| position) }
        })
        .collect()
}

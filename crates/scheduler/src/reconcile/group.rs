//! A group with a count: keep what runs as desired, end what is too much, replace what is gone, and what is of an older
//! version as fast as its deployment allows.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use berth_model::{
    Timestamp,
    alloc::{ClientStatus, DesiredStatus, Reschedule, StopReason},
    job::{Group, Job, VersionChange},
    store::{JobRow, NodeSlot, Store},
};

use super::{
    ExistingAlloc, JobChanges, MissingAlloc, ReplacedAlloc, disconnect,
    missing::{FreshAllocs, MissingAllocs},
    names::Names,
    reschedule::{ForcedReschedule, RescheduleDecision, verdict},
    rollout::{CanaryState, Rollout},
    stop,
};
use crate::place::Ask;

/// The version of entries from which on a plan can place what an older version of its job says.
const PLACES_OLDER: u8 = 5;

pub(super) fn reconcile(
    store: &Store,
    (row, position, group): (&JobRow, u16, &Group),
    existing: &[&ExistingAlloc<'_>],
    (now, replacements_max, forced): (Timestamp, usize, &ForcedReschedule<'_>),
    changes: &mut JobChanges,
) {
    let rollout = Rollout::of(store, row, group);
    let existing = disconnect::settle(store, (row.job().as_ref(), group), existing.to_vec(), changes).staying;
    let (canaries, existing): (Vec<&ExistingAlloc<'_>>, Vec<_>) =
        existing.into_iter().partition(|e| rollout.canary(e) != CanaryState::No);
    let is_old = |e: &&ExistingAlloc<'_>| !e.is_current && e.row.is_desired();
    // Before a version has proved itself, what is replaced for another reason goes on as it was.
    let keeps_old = store.version() >= PLACES_OLDER && rollout.canaries(existing.iter().any(is_old)) > 0;
    let mut unsucceeded: Vec<_> =
        existing.iter().copied().filter(|e| is_to_be_succeeded(row, e, keeps_old)).collect();
    unsucceeded.sort_by_key(|e| Reverse(store.allocs().detail(e.slot).map(|detail| detail.created_at)));
    let (live, ended): (Vec<&ExistingAlloc<'_>>, Vec<_>) = existing
        .iter()
        .copied()
        .filter(|e| e.row.is_desired() || e.row.is_terminal())
        .partition(|e| e.row.is_desired());
    let mut step = GroupReconciler {
        store,
        row,
        group,
        now,
        forced,
        rollout,
        keeps_old,
        replaces_unknown: group.on_disconnect().replaces_unknown(),
        count: GroupCount {
            left: group.count,
            replacements_max,
            taken: Names::default(),
            replacing: Vec::new(),
        },
        unproven: 0,
        is_unhealthy: false,
        changes,
    };
    // One may have been placed for another that was thought lost and has ended well after all: each name is done once.
    for done in ended.iter().filter(|e| counts_as_done(row.job(), e)) {
        if !step.count.taken.contains(done.row.name_index) {
            step.count.keep(done);
        }
    }
    let is_done = |e: &&ExistingAlloc<'_>| {
        row.job().job_type.runs_to_completion() && step.count.taken.contains(e.row.name_index)
    };
    let (again, live): (Vec<_>, Vec<_>) = live.into_iter().partition(is_done);
    step.changes.stops.extend(again.into_iter().map(|e| stop(e, StopReason::NotNeeded)));
    let (old, current): (Vec<_>, Vec<_>) = live
        .into_iter()
        .partition(|e| !e.is_current && (keeps_old || e.must_go().is_none() && !step.is_to_stand_in_for(e)));
    current.into_iter().for_each(|alloc| step.keep_or_replace(alloc));
    let failed = failed_last(&ended, &step.count.taken);
    step.is_unhealthy |= !failed.is_empty();
    // What goes for good leaves nothing that a canary could stand beside.
    let some_stay = !old.is_empty() && step.count.left > 0;
    let wanted_canaries = step.rollout.canaries(some_stay);
    let names: Vec<u32> = old.iter().map(|alloc| alloc.row.name_index).collect();
    let awaits_canaries = wanted_canaries > 0;
    step.update(old, awaits_canaries);
    failed.into_iter().for_each(|failed| step.consider_failed(failed, false));
    unsucceeded.into_iter().for_each(|alloc| step.succeed(alloc));
    let deployment = step.rollout.begin(group.count, wanted_canaries, &existing);
    let canaries = step.place_canaries(&canaries, wanted_canaries, &names);
    let GroupReconciler { count, changes, .. } = step;
    changes.deployment.extend(deployment);
    let mut missing = count.into_missing((position, group), &ended);
    if awaits_canaries {
        // Nothing more of a version that has to prove itself.
        missing.fresh = FreshAllocs::Nothing;
    }
    changes.missing.extend(of_older_versions(&mut missing));
    missing.replacing.extend(canaries);
    changes.missing.push(missing);
}

/// Takes out what is to run as an older version says, version by version.
fn of_older_versions(missing: &mut MissingAllocs) -> Vec<MissingAllocs> {
    let mut by_version: BTreeMap<(u64, u16), Vec<MissingAlloc>> = BTreeMap::new();
    for missing in missing.replacing.extract_if(.., |one| one.of_version.is_some()) {
        if let Some(of) = missing.of_version {
            by_version.entry(of).or_default().push(missing);
        }
    }
    let of_version = |((version, group), replacing)| MissingAllocs {
        version: Some(version),
        group,
        replacing,
        fresh: FreshAllocs::Nothing,
    };
    by_version.into_iter().map(of_version).collect()
}

/// A batch allocation that ended well is done for good, as long as the job desires the same.
fn counts_as_done(job: &Job, alloc: &ExistingAlloc<'_>) -> bool {
    job.job_type.runs_to_completion()
        && alloc.row.client == ClientStatus::Complete
        && alloc.is_current
        && alloc.row.desired == DesiredStatus::Run
}

fn needs_verdict(alloc: &ExistingAlloc<'_>) -> bool {
    alloc.row.client == ClientStatus::Failed && alloc.is_current && alloc.row.desired == DesiredStatus::Run
}

/// The last of each name to have failed, where no other has that name by now: it alone has a place in the count, and shows how its
/// version is.
fn failed_last<'a, 'e>(ended: &[&'e ExistingAlloc<'a>], taken: &Names) -> Vec<&'e ExistingAlloc<'a>> {
    let failed = ended.iter().copied().filter(|alloc| needs_verdict(alloc) && !alloc.is_replaced());
    let mut last: BTreeMap<u32, &ExistingAlloc<'_>> = BTreeMap::new();
    for alloc in failed.filter(|alloc| !taken.contains(alloc.row.name_index)) {
        let known = last.entry(alloc.row.name_index).or_insert(alloc);
        if known.row.create_index < alloc.row.create_index {
            *known = alloc;
        }
    }
    last.into_values().collect()
}

/// Whether nobody has taken the place of an allocation that was asked to end by request, was lost on a node that is there, or
/// failed before there was another version of a service. As long as old ones stay old, they are succeeded like those of
/// the newest version; what ran before the job was stopped and registered again is not.
fn is_to_be_succeeded(job: &JobRow, alloc: &ExistingAlloc<'_>, keeps_old: bool) -> bool {
    let stop_reason = alloc.extra.and_then(|extra| extra.stop_reason);
    let by_request = stop_reason == Some(StopReason::Requested);
    let by_node = alloc.row.client == ClientStatus::Lost && alloc.row.desired == DesiredStatus::Run;
    let by_failure = !job.job().job_type.runs_to_completion()
        && alloc.row.client == ClientStatus::Failed
        && alloc.row.desired == DesiredStatus::Run;
    let by_others = by_request || by_node;
    // There may have been no capacity for its successor as it had to go. Before a promotion nothing else fills its place.
    let had_to_go = stop_reason.is_some_and(StopReason::had_to_go);
    let is_left = match alloc.is_current {
        true => by_others || keeps_old && had_to_go,
        false => by_failure || keeps_old && (by_others || had_to_go),
    };
    is_left && !alloc.is_replaced() && alloc.row.job_version >= job.begun_with()
}

/// What is to be done about a group, as far as it is known.
struct GroupReconciler<'a, 'c> {
    store: &'a Store,
    row: &'a JobRow,
    group: &'a Group,
    now: Timestamp,
    forced: &'a ForcedReschedule<'a>,
    rollout: Rollout<'a>,
    /// What is of an older version, and is replaced for another reason than the update, goes on as that version.
    keeps_old: bool,
    /// Others are placed for those whose nodes are disconnected.
    replaces_unknown: bool,
    count: GroupCount,
    /// Allocations of the newest version that have still to show whether they are well.
    unproven: u32,
    /// One of them is not.
    is_unhealthy: bool,
    changes: &'c mut JobChanges,
}

impl GroupReconciler<'_, '_> {
    /// What runs the newest version, or did so on a node that is gone.
    fn keep_or_replace(&mut self, alloc: &ExistingAlloc<'_>) {
        let count = &mut self.count;
        if count.left > 0 && count.is_full() && alloc.must_go().is_some() {
            self.changes.more = true;
            count.keep(alloc);
        } else if let Some(reason) = alloc.must_go() {
            self.changes.stops.push(stop(alloc, reason));
            self.unproven += u32::from(count.left > 0);
            self.replace(alloc, MissingAlloc::default());
        } else if count.left == 0 {
            self.changes.stops.push(stop(alloc, StopReason::NotNeeded));
        } else if alloc.migrate().is_some() {
            self.move_away(alloc);
        } else if self.is_to_stand_in_for(alloc) {
            self.stand_in_for(alloc);
        } else if alloc.is_outdated {
            self.update_in_place(alloc);
        } else {
            match self.healthy(alloc) {
                Some(true) => self.count.keep(alloc),
                None => {
                    self.unproven += 1;
                    self.count.keep(alloc);
                }
                Some(false) => self.consider_unhealthy(alloc),
            }
        }
    }

    /// What nothing is started again for does not wait for others: only whether it is well under the newest version is waited
    /// for.
    fn update_in_place(&mut self, alloc: &ExistingAlloc<'_>) {
        self.unproven += 1;
        let is_held = self.rollout.is_held();
        self.changes.more |= !is_held && self.count.is_full();
        if !is_held && !self.count.is_full() {
            self.count.replacements_max -= 1;
            self.changes.updates.push(alloc.row.id);
        }
        self.count.keep(alloc);
    }

    /// Whether another is to be placed in its stead, because its node is disconnected.
    fn is_to_stand_in_for(&self, alloc: &ExistingAlloc<'_>) -> bool {
        self.replaces_unknown && alloc.is_unknown()
    }

    /// It may come back: it is not asked to stop.
    fn stand_in_for(&mut self, alloc: &ExistingAlloc<'_>) {
        self.unproven += 1;
        if self.count.is_full() {
            self.changes.more = true;
            self.count.keep(alloc);
        } else {
            self.replace(alloc, MissingAlloc::default());
        }
    }

    /// Places another in the stead of one, of the version that belongs there. What the newest version changes in place is of it
    /// before any promotion.
    fn replace(&mut self, alloc: &ExistingAlloc<'_>, missing: MissingAlloc) {
        let of = (alloc.row.job_version, alloc.row.group);
        let stays_older = || self.row.change_of(of.0, of.1) == VersionChange::Replacement;
        let of_version = (self.keeps_old && !alloc.is_current && stays_older()).then_some(of);
        self.count.replace(alloc, MissingAlloc { of_version, ..missing });
    }

    /// What is missing anyway replaces one that ended, and is linked with it.
    fn succeed(&mut self, ended: &ExistingAlloc<'_>) {
        let failed = ended.row.client == ClientStatus::Failed && ended.row.desired == DesiredStatus::Run;
        if self.keeps_old && !ended.is_current && failed {
            return self.consider_failed(ended, false);
        }
        if self.count.left > 0 && !self.count.is_full() {
            let prefer = Some(ended.row.node).filter(|_| self.group.disk.sticky);
            let ask = Ask { prefer, ..Ask::default() };
            self.replace(ended, MissingAlloc { ask, ..MissingAlloc::default() });
        }
    }

    /// What stands on a node that is drained goes on there until another stands in for it.
    fn move_away(&mut self, alloc: &ExistingAlloc<'_>) {
        self.unproven += 1;
        if self.count.is_full() {
            self.changes.more = true;
            self.count.keep(alloc);
        } else {
            let instead = Some(ReplacedAlloc::of(alloc, StopReason::Migrated));
            self.replace(alloc, MissingAlloc { instead, ..MissingAlloc::default() });
        }
    }

    /// What an allocation has shown; those that nobody asks are well.
    fn healthy(&self, alloc: &ExistingAlloc<'_>) -> Option<bool> {
        if self.rollout.limit().is_none() || self.store.is_healthy_if_carried(alloc.slot) {
            return Some(true);
        }
        self.store.allocs().detail(alloc.slot).and_then(|detail| detail.healthy)
    }

    fn consider_unhealthy(&mut self, alloc: &ExistingAlloc<'_>) {
        self.is_unhealthy = true;
        if self.rollout.replaces_unhealthy() {
            self.consider_failed(alloc, false);
        } else {
            self.count.keep(alloc);
        }
    }

    /// Replaces what is of an older version, as many as may be at once; what is too many goes, and first whoever has a
    /// name that another has already.
    fn update(&mut self, mut old: Vec<&ExistingAlloc<'_>>, awaits_canaries: bool) {
        // What has not shown that it is well goes before what has.
        let is_proven = |alloc: &&ExistingAlloc<'_>| self.store.is_healthy_if_carried(alloc.slot);
        old.sort_by_key(|alloc| (self.count.taken.contains(alloc.row.name_index), !is_proven(alloc)));
        let surplus = old.split_off(old.len().min(self.count.left as usize));
        self.changes.stops.extend(surplus.into_iter().map(|alloc| stop(alloc, StopReason::NotNeeded)));
        old.sort_by_key(|alloc| (alloc.migrate().is_none(), is_proven(alloc)));
        // What is missing besides comes first.
        let missing = self.count.left.saturating_sub(u32::try_from(old.len()).unwrap_or(u32::MAX));
        let busy = self.unproven.saturating_add(missing);
        let limit = self.rollout.limit().map(|limit| limit.saturating_sub(busy));
        let stands_still = awaits_canaries || limit.is_some() && self.is_unhealthy;
        let mut left = if stands_still { 0 } else { limit.unwrap_or(u32::MAX) };
        // A drain waits for no update that nobody may ever go on with.
        let leaves_first = self.keeps_old || self.rollout.is_held();
        for alloc in old {
            if self.keeps_old && (alloc.must_go().is_some() || self.is_to_stand_in_for(alloc))
                || leaves_first && alloc.migrate().is_some()
            {
                self.keep_or_replace(alloc);
            } else if left == 0 {
                self.count.keep(alloc);
            } else if self.count.is_full() {
                self.changes.more = true;
                self.count.keep(alloc);
            } else {
                left -= 1;
                let ask = Ask { prefer: Some(alloc.row.node), ..Ask::default() };
                let instead = Some(ReplacedAlloc::of(alloc, StopReason::JobUpdated));
                self.count.replace(alloc, MissingAlloc { ask, instead, ..MissingAlloc::default() });
            }
        }
    }

    /// Replaces what has failed, or was found unhealthy, when its policy allows it.
    fn consider_failed(&mut self, failed: &ExistingAlloc<'_>, canary: bool) {
        if self.count.left == 0 {
            return;
        }
        if self.count.is_full() {
            self.changes.more = true;
            return self.count.keep(failed);
        }
        match verdict(self.store, (failed.slot, failed.row), &self.group.reschedule, self.now, self.forced) {
            RescheduleDecision::Now(reschedules) => {
                let ask = Ask { avoid: self.nodes_of_failures(failed, &reschedules), ..Ask::default() };
                let instead =
                    failed.row.is_desired().then(|| ReplacedAlloc::of(failed, StopReason::Rescheduled));
                self.replace(
                    failed,
                    MissingAlloc { ask, reschedules, instead, canary, ..MissingAlloc::default() },
                );
            }
            RescheduleDecision::Later(at) => {
                self.count.keep(failed);
                let earlier = self.changes.retry_at;
                self.changes.retry_at = Some(earlier.map_or(at, |earlier| earlier.min(at)));
            }
            RescheduleDecision::Never => self.count.keep(failed),
        }
    }

    /// Where it failed, and its predecessors did that still count.
    fn nodes_of_failures(&self, failed: &ExistingAlloc<'_>, reschedules: &[Reschedule]) -> Vec<NodeSlot> {
        let known = reschedules.iter().filter_map(|event| self.store.nodes().find(event.of?.node));
        let nodes: BTreeSet<NodeSlot> = known.chain([failed.row.node]).collect();
        nodes.into_iter().collect()
    }

    /// The canaries that are missing, with the names of those that they are to replace; ends those that nobody waits for.
    fn place_canaries(
        &mut self,
        canaries: &[&ExistingAlloc<'_>],
        wanted: u32,
        names: &[u32],
    ) -> Vec<MissingAlloc> {
        let replacements_max = self.count.replacements_max.saturating_sub(self.count.replacing.len());
        let count =
            GroupCount { left: wanted, replacements_max, taken: Names::default(), replacing: Vec::new() };
        let others = std::mem::replace(&mut self.count, count);
        for alloc in canaries {
            let is_open = self.rollout.canary(alloc) == CanaryState::Open;
            let is_unhealthy =
                || self.store.allocs().detail(alloc.slot).is_some_and(|d| d.healthy == Some(false));
            let leaves = alloc.must_go().or(alloc.migrate().map(|_| StopReason::Drained));
            if let Some(reason) = leaves.filter(|_| alloc.row.is_desired()) {
                self.changes.stops.push(stop(alloc, reason));
                if is_open && self.rollout.may_place_canaries() {
                    self.count.replace(alloc, MissingAlloc { canary: true, ..MissingAlloc::default() });
                }
            } else if alloc.row.is_desired() && (!is_open || self.count.left == 0) {
                self.changes.stops.push(stop(alloc, StopReason::CanaryDiscarded));
            } else if alloc.row.is_desired() && is_unhealthy() && self.rollout.replaces_unhealthy() {
                self.consider_failed(alloc, true);
            } else if alloc.row.is_desired() {
                self.count.keep(alloc);
            } else if is_open && needs_verdict(alloc) && !alloc.is_replaced() {
                self.consider_failed(alloc, true);
            }
        }
        let GroupCount { left, taken, mut replacing, .. } = std::mem::replace(&mut self.count, others);
        let left = if self.rollout.may_place_canaries() { left as usize } else { 0 };
        let last = names.iter().max().map_or(0, |name| name + 1);
        let free = names.iter().copied().chain(last..).filter(|name| !taken.contains(*name));
        replacing.extend(free.take(left.min(replacements_max)).map(|name_index| {
            let ask = Ask { name_index, ..Ask::default() };
            MissingAlloc { ask, canary: true, ..MissingAlloc::default() }
        }));
        replacing
    }
}

/// How many allocations are still to be accounted for, and which names are taken.
struct GroupCount {
    left: u32,
    /// Allocations that may be replaced, besides those that are updated where they are.
    replacements_max: usize,
    taken: Names,
    replacing: Vec<MissingAlloc>,
}

impl GroupCount {
    /// Whether no more may be replaced for now.
    fn is_full(&self) -> bool {
        self.replacing.len() >= self.replacements_max
    }

    fn keep(&mut self, alloc: &ExistingAlloc<'_>) {
        self.left = self.left.saturating_sub(1);
        self.taken.insert(alloc.row.name_index);
    }

    fn replace(&mut self, alloc: &ExistingAlloc<'_>, missing: MissingAlloc) {
        if self.left == 0 {
            return;
        }
        let name_index = self.name_for(alloc.row.name_index);
        self.left -= 1;
        self.taken.insert(name_index);
        let ask = Ask { name_index, ..missing.ask };
        self.replacing.push(MissingAlloc { ask, previous: Some(alloc.row.id), ..missing });
    }

    /// The name of whom it replaces, unless another has that already, as a canary that was promoted.
    fn name_for(&self, name: u32) -> u32 {
        if !self.taken.contains(name) {
            return name;
        }
        self.taken.free().next().expect("names do not run out")
    }

    /// What is left is new, with the lowest names that are free.
    fn into_missing(self, (position, group): (u16, &Group), ended: &[&ExistingAlloc<'_>]) -> MissingAllocs {
        let Self { left: count, taken, replacing, .. } = self;
        let before = ended.iter().filter(|_| group.disk.sticky);
        let sticky = before.map(|e| (e.row.name_index, e.row.node)).collect();
        MissingAllocs {
            version: None,
            group: position,
            replacing,
            fresh: FreshAllocs::Named { count, taken, sticky },
        }
    }
}

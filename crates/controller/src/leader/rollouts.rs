//! Deployments that go on: which of them changed, and when time alone would fail one. What becomes of each is judged from
//! the state alone, so that any leader comes to the same.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    DeploymentId, JobKey, Timestamp,
    alloc::ClientStatus,
    deployment::{Deployment, DeploymentGroup, DeploymentStatus, UnhealthyAlloc},
    event::StateChange,
    job::JobType,
    store::{AllocRow, AllocSlot, JobRow, NodeRow, NodeSlot, Store},
};
use berth_scheduler::{filters::Filters, reconcile::failed_for_good};

use crate::follow::Follower;

/// What is to become of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeploymentVerdict {
    /// All of it is healthy.
    Successful,
    /// Why, and the version to go back to.
    Failed(String, Option<u64>),
    /// The canaries of these groups have shown enough, and nobody needs to be asked.
    Promote(Vec<String>),
    /// More of it may be placed.
    GoOn,
}

/// The deployments that are active.
#[derive(Debug, Default)]
pub(crate) struct Rollouts {
    /// Deployments to judge at the next step.
    changed: BTreeSet<DeploymentId>,
    /// When each is judged for the sake of time.
    deadlines: BTreeSet<(Timestamp, DeploymentId)>,
    times: BTreeMap<DeploymentId, Timestamp>,
    /// What was decided of them is on its way into the log.
    decided: BTreeSet<DeploymentId>,
    /// How far each had come when it was last let go on: a plan that found no capacity counts as a change of its deployment, and
    /// must not ask for the next one.
    went_on: BTreeMap<DeploymentId, Vec<Progress>>,
    /// Those of jobs that run on every node: how far they are depends on the nodes too.
    per_node: BTreeSet<DeploymentId>,
    /// Of these, the ones to be looked at again, since allocations ended that they do not count.
    recheck: BTreeSet<DeploymentId>,
    /// All of these are to be looked at again.
    nodes_changed: bool,
}

/// How far a group has come: allocations placed, gone and healthy, and whether it is promoted.
type Progress = (u32, u32, u32, bool);

fn progress(deployment: &Deployment) -> Vec<Progress> {
    let of = |group: &DeploymentGroup| (group.placed, group.gone, group.healthy, group.promoted);
    deployment.groups.iter().map(of).collect()
}

impl Follower for Rollouts {
    fn of(store: &Store) -> Self {
        let mut all = Self::default();
        store.deployments().active().for_each(|deployment| all.look_at(store, deployment));
        all
    }

    fn on_change(&mut self, store: &Store, change: &StateChange, _at: Timestamp) {
        match change {
            StateChange::DeploymentChanged(id, _) => {
                self.forget(*id);
                match store.deployments().get(*id).filter(|d| d.is_active()) {
                    Some(deployment) => self.look_at(store, deployment),
                    None => self.forget_all(*id),
                }
            }
            StateChange::DeploymentCollected(id) => {
                self.forget(*id);
                self.forget_all(*id);
            }
            StateChange::NodeRegistered(_)
            | StateChange::NodeChanged(..)
            | StateChange::NodeCollected(..)
            | StateChange::AllocCollected(..) => self.nodes_changed = true,
            StateChange::AllocStopped(slot)
            | StateChange::AllocEnded(slot)
            | StateChange::AllocUpdated(slot, _) => {
                let job = store.allocs().row(*slot).map(|row| row.job);
                let of = job.and_then(|job| store.deployments().active_of(job)).map(|of| of.id);
                self.recheck.extend(of.filter(|id| self.per_node.contains(id)));
            }
            _ => {}
        }
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

impl Rollouts {
    fn look_at(&mut self, store: &Store, deployment: &Deployment) {
        let id = deployment.id;
        self.changed.insert(id);
        if store.job(&deployment.job).is_some_and(is_per_node) {
            self.per_node.insert(id);
        }
        if let Some(at) = deadline(store, deployment) {
            self.deadlines.insert((at, id));
            self.times.insert(id, at);
        }
    }

    fn forget(&mut self, id: DeploymentId) {
        self.changed.remove(&id);
        self.decided.remove(&id);
        self.recheck.remove(&id);
        self.forget_deadline(id);
    }

    fn forget_deadline(&mut self, id: DeploymentId) {
        if let Some(at) = self.times.remove(&id) {
            self.deadlines.remove(&(at, id));
        }
    }

    /// Drops all that is stored of a deployment that has ended.
    fn forget_all(&mut self, id: DeploymentId) {
        self.went_on.remove(&id);
        self.per_node.remove(&id);
    }

    /// Looks again at those that nodes, and allocations of older versions, have changed. Once for many such changes: it takes a
    /// look at all allocations of a job.
    pub fn follow(&mut self, store: &Store) {
        let mut recheck = std::mem::take(&mut self.recheck);
        if std::mem::take(&mut self.nodes_changed) {
            recheck.extend(&self.per_node);
        }
        for id in recheck {
            self.forget_deadline(id);
            if let Some(deployment) = store.deployments().get(id) {
                self.look_at(store, deployment);
            }
        }
    }

    /// When each is due next; what follows from the state, for tests.
    #[cfg(test)]
    pub fn deadlines(&self) -> &BTreeSet<(Timestamp, DeploymentId)> {
        &self.deadlines
    }

    /// What is to be done about those that changed or whose time has come.
    pub fn judge(&mut self, store: &Store, now: Timestamp) -> Vec<(DeploymentId, JobKey, DeploymentVerdict)> {
        self.follow(store);
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id);
        let looked_at: BTreeSet<DeploymentId> =
            std::mem::take(&mut self.changed).into_iter().chain(due).collect();
        let mut verdicts = Vec::new();
        for id in looked_at {
            let Some(deployment) = store.deployments().get(id).filter(|_| !self.decided.contains(&id)) else {
                continue;
            };
            let verdict = judge(store, deployment, now);
            if verdict == Some(DeploymentVerdict::GoOn) {
                let now = progress(deployment);
                if self.went_on.get(&id) == Some(&now) {
                    continue;
                }
                self.went_on.insert(id, now);
            } else {
                self.went_on.remove(&id);
            }
            let Some(verdict) = verdict else { continue };
            if verdict != DeploymentVerdict::GoOn {
                self.decided.insert(id);
            }
            verdicts.push((id, deployment.job.clone(), verdict));
        }
        verdicts
    }
}

/// When one that goes on fails unless something becomes healthy; none while it waits for somebody.
fn deadline(store: &Store, deployment: &Deployment) -> Option<Timestamp> {
    let row = store.job(&deployment.job).filter(|_| deployment.status == DeploymentStatus::Running)?;
    let groups = unfinished(store, row, deployment).into_iter().filter(|group| is_timed(store, group));
    groups.map(|group| group.require_progress_by).min()
}

/// Whether a group must go on becoming healthy, and has not what a person may promote.
fn is_timed(store: &Store, group: &DeploymentGroup) -> bool {
    group.require_progress_by != Timestamp::default() && !store.has_healthy_canaries(group)
}

fn judge(store: &Store, deployment: &Deployment, now: Timestamp) -> Option<DeploymentVerdict> {
    let row = store.job(&deployment.job).filter(|_| deployment.status == DeploymentStatus::Running)?;
    let is_stuck = |group: &DeploymentGroup| is_per_node(row) && is_stuck(store, (row, deployment, group));
    let at_once = |group: &&DeploymentGroup| {
        let of_before = || has_unhealthy_of_before(store, (row, deployment, group), now);
        let has_deadline = group.require_progress_by != Timestamp::default();
        !has_deadline && (group.unhealthy > 0 || is_stuck(group) || of_before())
    };
    if let Some(group) = deployment.groups.iter().find(at_once) {
        return Some(failed(store, (row, deployment, group), "Failed due to unhealthy allocations"));
    }
    let unfinished = unfinished(store, row, deployment);
    if unfinished.is_empty() {
        return Some(DeploymentVerdict::Successful);
    }
    let late = |group: &&&DeploymentGroup| group.require_progress_by <= now && is_timed(store, group);
    if let Some(group) = unfinished.iter().find(late) {
        return Some(failed(store, (row, deployment, group), "Failed due to progress deadline"));
    }
    let canarying: Vec<&DeploymentGroup> =
        unfinished.iter().copied().filter(|group| group.is_canarying()).collect();
    let is_shown = |group: &&DeploymentGroup| group.auto_promote && store.has_healthy_canaries(group);
    if !canarying.is_empty() && canarying.iter().all(is_shown) {
        return Some(DeploymentVerdict::Promote(canarying.iter().map(|group| group.name.clone()).collect()));
    }
    unfinished
        .iter()
        .any(|group| can_go_on(store, (row, deployment, group)))
        .then_some(DeploymentVerdict::GoOn)
}

fn is_per_node(row: &JobRow) -> bool {
    row.job().job_type == JobType::System
}

/// The groups that are not rolled out. A group whose nodes have all left has nothing more to show, and the others are waited for;
/// but where no group has anything healthy, each of them still must.
fn unfinished<'a>(store: &Store, row: &JobRow, deployment: &'a Deployment) -> Vec<&'a DeploymentGroup> {
    let all = || deployment.groups.iter();
    if !is_per_node(row) {
        return all().filter(|group| !is_healthy(store, (row, deployment, group))).collect();
    }
    if all().all(|group| group.healthy == 0) {
        return all().collect();
    }
    let is_over = |group: &DeploymentGroup| {
        let of = (row, deployment, group);
        is_through(store, of) || is_deserted(store, of)
    };
    all().filter(|group| !is_over(group)).collect()
}

/// Whether all that a group with a count must show has been shown.
fn is_healthy(store: &Store, of: GroupRollout<'_>) -> bool {
    let (.., group) = of;
    let LiveCounts { live, healthy } = live_allocs(store, of);
    group.promoted && healthy >= group.desired_total && healthy == live
}

/// How many allocations of a group are there, and how many of them have shown that they are well.
struct LiveCounts {
    live: u32,
    healthy: u32,
}

/// Of one on a disconnected node and the one that stands in for it only that one counts: they are one of the count.
fn live_allocs(store: &Store, of: GroupRollout<'_>) -> LiveCounts {
    let (row, deployment, group) = of;
    let (mut live, mut healthy) = (group.live(), group.healthy);
    let is_stood_in_for = |(slot, alloc): &(AllocSlot, &AllocRow)| {
        alloc.is_desired()
            && !is_heard(store, alloc)
            && store.allocs().extra(*slot).is_some_and(|extra| extra.next.is_some())
            && is_part(store, of, alloc)
    };
    // Most of the time there is none, and a job may have many allocations.
    if store.nodes().any_disconnected() {
        for (slot, _) in allocs(store, row).filter(is_stood_in_for) {
            live = live.saturating_sub(1);
            healthy = healthy.saturating_sub(u32::from(store.is_proven(slot, deployment.id)));
        }
    }
    LiveCounts { live, healthy }
}

/// A job, its active deployment, and a group of that.
type GroupRollout<'a> = (&'a JobRow, &'a Deployment, &'a DeploymentGroup);

/// Whether a group with one allocation a node is rolled out. Nodes come and go: what its deployment began with says little of it,
/// and it is through once nothing of an older version is desired on nodes that take new work. What is on others is replaced once
/// they do. Canaries wait for their promotion, unless too few of them are left and nothing that they could replace.
fn is_through(store: &Store, of: GroupRollout<'_>) -> bool {
    let (row, _, group) = of;
    if group.healthy == 0 || store.has_healthy_canaries(group) || has_old(store, of) {
        return false;
    }
    let is_unproven = |alloc| is_unproven(store, of, alloc) || has_failed(store, of, alloc);
    !allocs(store, row).any(is_unproven)
}

/// Whether a group has nothing on any node that could show how its version is, and nowhere to place it.
fn is_deserted(store: &Store, of: GroupRollout<'_>) -> bool {
    let (row, deployment, group) = of;
    let job = row.version(deployment.job_version).map(|version| &version.job);
    let Some((job, (_, spec))) = job.and_then(|job| Some((job, job.group(&group.name)?))) else {
        return false;
    };
    if group.live() > 0 || has_old(store, of) || allocs(store, row).any(|at| has_failed(store, of, at)) {
        return false;
    }
    let covers = |alloc: &AllocRow| store.keeps_node_covered(alloc) && is_of(store, alloc, group);
    let covered: BTreeSet<NodeSlot> =
        allocs(store, row).filter(|(_, alloc)| covers(alloc)).map(|(_, alloc)| alloc.node).collect();
    let filters = Filters::of(job, spec);
    let fits = |slot| store.nodes().detail(slot).is_some_and(|detail| filters.check(&detail.node).is_ok());
    !store.nodes().iter().any(|(slot, node)| node.is_ready() && !covered.contains(&slot) && fits(slot))
}

/// Whether a group has an allocation that will not be healthy although this deployment has not found it unhealthy: it was found so
/// before, which its agent reports once, or has failed and is not replaced. A deployment without a deadline would wait for it without
/// end.
fn has_unhealthy_of_before(store: &Store, of: GroupRollout<'_>, now: Timestamp) -> bool {
    let (row, _, group) = of;
    let is_carried_unwell = |(slot, alloc): (AllocSlot, &AllocRow)| {
        alloc.is_desired() && is_unwell(store, slot) && is_part(store, of, alloc)
    };
    let is_own = |slot: &AllocSlot| store.allocs().row(*slot).is_some_and(|alloc| is_of(store, alloc, group));
    allocs(store, row).any(is_carried_unwell) || failed_for_good(store, row, now).iter().any(is_own)
}

/// Whether an allocation was found unhealthy.
fn is_unwell(store: &Store, slot: AllocSlot) -> bool {
    store.allocs().detail(slot).is_some_and(|detail| detail.healthy == Some(false))
}

/// Whether nothing more will be replaced, since one of this version has failed, or one that goes on was found unhealthy. What failed
/// before this version says nothing of it.
fn is_stuck(store: &Store, of: GroupRollout<'_>) -> bool {
    let (row, ..) = of;
    let is_sick = |(slot, alloc): (AllocSlot, &AllocRow)| {
        is_part(store, of, alloc) && alloc.is_desired() && is_unwell(store, slot)
    };
    allocs(store, row).any(|at| has_failed(store, of, at))
        || allocs(store, row).any(is_sick) && has_old(store, of)
}

/// Whether an allocation of an older version is desired on a node that takes its successor.
fn has_old(store: &Store, of: GroupRollout<'_>) -> bool {
    let (row, _, group) = of;
    let takes_work = |alloc: &AllocRow| store.nodes().row(alloc.node).is_some_and(NodeRow::is_ready);
    allocs(store, row).any(|(_, alloc)| {
        alloc.is_desired() && is_of(store, alloc, group) && !is_part(store, of, alloc) && takes_work(alloc)
    })
}

/// Whether an allocation has still to show how it is, on a node that can be heard.
fn is_unproven(store: &Store, of: GroupRollout<'_>, (slot, alloc): (AllocSlot, &AllocRow)) -> bool {
    alloc.is_desired()
        && is_heard(store, alloc)
        && is_part(store, of, alloc)
        && !store.is_proven(slot, of.1.id)
}

/// Whether an allocation of the version that is rolled out has failed, where nothing is placed in its stead.
fn has_failed(store: &Store, of: GroupRollout<'_>, (_, alloc): (AllocSlot, &AllocRow)) -> bool {
    alloc.job_version == of.1.job_version && has_ended_failed(store, alloc) && is_part(store, of, alloc)
}

fn has_ended_failed(store: &Store, alloc: &AllocRow) -> bool {
    alloc.client == ClientStatus::Failed && store.keeps_node_covered(alloc) && is_heard(store, alloc)
}

fn is_heard(store: &Store, alloc: &AllocRow) -> bool {
    store.nodes().row(alloc.node).is_some_and(|node| !node.status.is_silent())
}

/// Whether an allocation is of the version that is rolled out, or goes on unchanged under it.
fn is_part(store: &Store, (_, deployment, group): GroupRollout<'_>, alloc: &AllocRow) -> bool {
    let is_carried = || group.carries(alloc.job_version, alloc.group);
    (alloc.job_version == deployment.job_version || is_carried()) && is_of(store, alloc, group)
}

fn is_of(store: &Store, alloc: &AllocRow, group: &DeploymentGroup) -> bool {
    store.job_of(alloc).is_some_and(|(_, of)| of.name == group.name)
}

fn allocs<'a>(store: &'a Store, row: &'a JobRow) -> impl Iterator<Item = (AllocSlot, &'a AllocRow)> {
    store.jobs().allocs(row).filter_map(|slot| Some((slot, store.allocs().row(slot)?)))
}

/// Whether a group may replace more allocations than it has under way. Nobody on a silent node reports how one is: the others do
/// not wait for that.
fn can_go_on(store: &Store, of: GroupRollout<'_>) -> bool {
    let (row, deployment, group) = of;
    let job = row.version(deployment.job_version).map(|version| &version.job);
    let update = job.and_then(|job| job.group(&group.name)?.1.update.as_deref());
    let LiveCounts { live, healthy } = live_allocs(store, of);
    let unproven = || match is_per_node(row) {
        true => allocs(store, row).filter(|at| is_unproven(store, of, *at)).count(),
        false => live.saturating_sub(healthy) as usize,
    };
    let is_short = live < group.desired_total || is_per_node(row) && has_old(store, of);
    group.promoted && is_short && update.is_none_or(|update| unproven() < update.max_parallel as usize)
}

/// A failure by the allocation that was found unhealthy last; where none was, by what was waited for in vain.
fn failed(store: &Store, (row, deployment, group): GroupRollout<'_>, why: &str) -> DeploymentVerdict {
    let name = &group.name;
    let named_cause = match &group.culprit {
        Some(UnhealthyAlloc { alloc, message }) => {
            format!(" (group {name:?}, allocation {}: {message})", alloc.short())
        }
        None => match awaited(store, (row, deployment, group)) {
            Some(alloc) => format!(" (group {name:?}, allocation {}: not healthy in time)", alloc.id.short()),
            None => format!(" (group {name:?}: {} of {} placed)", group.live(), group.desired_total),
        },
    };
    let (description, revert_to) = deployment.undone_by(row, why.to_owned() + &named_cause);
    DeploymentVerdict::Failed(description, revert_to)
}

/// The first allocation of a group that has still to show whether it is well.
fn awaited<'a>(
    store: &'a Store,
    (row, deployment, group): (&'a JobRow, &Deployment, &DeploymentGroup),
) -> Option<&'a AllocRow> {
    let unproven = allocs(store, row).filter(|(slot, alloc)| {
        alloc.is_desired()
            && is_part(store, (row, deployment, group), alloc)
            && !store.is_proven(*slot, deployment.id)
    });
    unproven.map(|(_, alloc)| alloc).min_by_key(|alloc| (alloc.create_index, alloc.id))
}

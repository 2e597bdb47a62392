//! Deployments that go on: which of them changed, and when time alone would fail one. What becomes of each is judged from
//! the state alone, so that any leader comes to the same.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    DeploymentId, JobKey, Timestamp,
    deployment::{Culprit, Deployment, DeploymentGroup, DeploymentStatus},
    event::Event as Change,
    job::JobType,
    store::{AllocRow, JobRow, Store},
};

use crate::follow::Follower;

/// What is to become of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All of it is healthy.
    Successful,
    /// Why, and the version to go back to.
    Failed(String, Option<u64>),
    /// Its canaries have shown enough, and nobody needs to be asked.
    Promote,
    /// More of it may be placed.
    GoOn,
}

/// The deployments that are active.
#[derive(Debug, Default)]
pub(crate) struct Rollouts {
    /// To be judged.
    changed: BTreeSet<DeploymentId>,
    /// When each is judged for the sake of time.
    deadlines: BTreeSet<(Timestamp, DeploymentId)>,
    times: BTreeMap<DeploymentId, Timestamp>,
    /// What was decided of them is on its way into the log.
    decided: BTreeSet<DeploymentId>,
    /// How far each had come when it was last let go on: a plan that found no room counts as a change of its deployment, and
    /// must not ask for the next one.
    went_on: BTreeMap<DeploymentId, Vec<Progress>>,
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

    fn on_change(&mut self, store: &Store, change: &Change, _at: Timestamp) {
        match change {
            Change::DeploymentChanged(id, _) => {
                self.forget(*id);
                match store.deployments().get(*id).filter(|d| d.is_active()) {
                    Some(deployment) => self.look_at(store, deployment),
                    None => drop(self.went_on.remove(id)),
                }
            }
            Change::DeploymentCollected(id) => {
                self.forget(*id);
                self.went_on.remove(id);
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
        self.changed.insert(deployment.id);
        if let Some(at) = deadline(store, deployment) {
            self.deadlines.insert((at, deployment.id));
            self.times.insert(deployment.id, at);
        }
    }

    fn forget(&mut self, id: DeploymentId) {
        self.changed.remove(&id);
        self.decided.remove(&id);
        if let Some(at) = self.times.remove(&id) {
            self.deadlines.remove(&(at, id));
        }
    }

    /// When each is due next; what follows from the state, for tests.
    #[cfg(test)]
    pub fn deadlines(&self) -> &BTreeSet<(Timestamp, DeploymentId)> {
        &self.deadlines
    }

    /// What is to be done about those that changed or whose time has come.
    pub fn judge(&mut self, store: &Store, now: Timestamp) -> Vec<(DeploymentId, JobKey, Verdict)> {
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id);
        let looked_at: BTreeSet<DeploymentId> =
            std::mem::take(&mut self.changed).into_iter().chain(due).collect();
        let mut verdicts = Vec::new();
        for id in looked_at {
            let Some(deployment) = store.deployments().get(id).filter(|_| !self.decided.contains(&id)) else {
                continue;
            };
            let verdict = judge(store, deployment, now);
            if verdict == Some(Verdict::GoOn) {
                let now = progress(deployment);
                if self.went_on.get(&id) == Some(&now) {
                    continue;
                }
                self.went_on.insert(id, now);
            } else {
                self.went_on.remove(&id);
            }
            let Some(verdict) = verdict else { continue };
            if verdict != Verdict::GoOn {
                self.decided.insert(id);
            }
            verdicts.push((id, deployment.job.clone(), verdict));
        }
        verdicts
    }
}

/// When one that goes on fails unless something becomes healthy; none while it waits for somebody.
fn deadline(store: &Store, deployment: &Deployment) -> Option<Timestamp> {
    let running = deployment.status == DeploymentStatus::Running;
    let groups = deployment.groups.iter().filter(|group| running && is_timed(store, group));
    groups.map(|group| group.require_progress_by).min()
}

/// Whether a group must go on becoming healthy.
fn is_timed(store: &Store, group: &DeploymentGroup) -> bool {
    let is_through = group.is_healthy() || store.has_healthy_canaries(group);
    !is_through && group.require_progress_by != Timestamp::default()
}

fn judge(store: &Store, deployment: &Deployment, now: Timestamp) -> Option<Verdict> {
    let row = store.job(&deployment.job).filter(|_| deployment.status == DeploymentStatus::Running)?;
    let at_once = |group: &&DeploymentGroup| group.progress_deadline.is_zero() && group.unhealthy > 0;
    if let Some(group) = deployment.groups.iter().find(at_once) {
        return Some(failed(store, (row, deployment, group), "Failed due to unhealthy allocations"));
    }
    let late = |group: &&DeploymentGroup| is_timed(store, group) && group.require_progress_by <= now;
    if deployment.groups.iter().all(|group| is_through(store, row, deployment, group)) {
        return Some(Verdict::Successful);
    }
    if let Some(group) = deployment.groups.iter().find(late) {
        return Some(failed(store, (row, deployment, group), "Failed due to progress deadline"));
    }
    let mut canarying = deployment.groups.iter().filter(|group| group.is_canarying()).peekable();
    if canarying.peek().is_some() && canarying.all(|g| g.auto_promote && store.has_healthy_canaries(g)) {
        return Some(Verdict::Promote);
    }
    deployment.groups.iter().any(|group| can_go_on(row, deployment, group)).then_some(Verdict::GoOn)
}

/// Whether a group is rolled out. Nodes come and go under a job that runs on all of them: it is through once nothing
/// of an older version is desired on nodes that can be heard. What is on a silent one is replaced once that is back.
fn is_through(store: &Store, row: &JobRow, deployment: &Deployment, group: &DeploymentGroup) -> bool {
    if group.is_healthy() || row.job().job_type != JobType::System {
        return group.is_healthy();
    }
    if group.live() == 0 {
        return false;
    }
    let is_silent =
        |alloc: &AllocRow| store.nodes().row(alloc.node).is_none_or(|node| node.status.is_silent());
    let is_of_group = |alloc: &AllocRow| store.job_of(alloc).is_some_and(|(_, of)| of.name == group.name);
    let is_heard = |alloc: &AllocRow| alloc.is_wanted() && !is_silent(alloc) && is_of_group(alloc);
    let is_old = |alloc: &AllocRow| {
        alloc.job_version != deployment.job_version && !group.carries(alloc.job_version, alloc.group)
    };
    let rows = || store.jobs().allocs(row).filter_map(|slot| Some((slot, store.allocs().row(slot)?)));
    if rows().any(|(_, alloc)| is_old(alloc) && is_heard(alloc)) {
        return false;
    }
    let is_unproven = |slot| !store.is_proven(slot, deployment.id);
    group.healthy == group.live() || !rows().any(|(slot, alloc)| is_heard(alloc) && is_unproven(slot))
}

/// Whether a group may replace more allocations than it has under way.
fn can_go_on(row: &JobRow, deployment: &Deployment, group: &DeploymentGroup) -> bool {
    let job = row.version(deployment.job_version).map(|version| &version.job);
    let update = job.and_then(|job| job.group(&group.name)?.1.update.as_deref());
    let unproven = group.live().saturating_sub(group.healthy);
    group.promoted
        && group.live() < group.desired_total
        && update.is_none_or(|update| unproven < update.max_parallel)
}

/// A failure by the allocation that was found unhealthy last; where none was, by what was waited for in vain.
fn failed(
    store: &Store,
    (row, deployment, group): (&JobRow, &Deployment, &DeploymentGroup),
    why: &str,
) -> Verdict {
    let name = &group.name;
    let said = match &group.culprit {
        Some(Culprit { alloc, message }) => {
            format!(" (group {name:?}, allocation {}: {message})", alloc.short())
        }
        None => match awaited(store, (row, deployment, group)) {
            Some(alloc) => format!(" (group {name:?}, allocation {}: not healthy in time)", alloc.id.short()),
            None => format!(" (group {name:?}: {} of {} placed)", group.live(), group.desired_total),
        },
    };
    let (description, revert_to) = deployment.undone_by(row, why.to_owned() + &said);
    Verdict::Failed(description, revert_to)
}

/// The first allocation of a group that has still to show whether it is well.
fn awaited<'a>(
    store: &'a Store,
    (row, deployment, group): (&JobRow, &Deployment, &DeploymentGroup),
) -> Option<&'a AllocRow> {
    let is_part = |alloc: &AllocRow| {
        alloc.job_version == deployment.job_version || group.carries(alloc.job_version, alloc.group)
    };
    let is_of_group = |alloc: &AllocRow| store.job_of(alloc).is_some_and(|(_, of)| of.name == group.name);
    let rows = store.jobs().allocs(row).filter_map(|slot| Some((slot, store.allocs().row(slot)?)));
    let unproven = rows.filter(|(slot, alloc)| {
        alloc.is_wanted() && is_part(alloc) && is_of_group(alloc) && !store.is_proven(*slot, deployment.id)
    });
    unproven.map(|(_, alloc)| alloc).min_by_key(|alloc| (alloc.create_index, alloc.id))
}

//! Applying what becomes of deployments, and what their allocations show.

use std::{collections::BTreeMap, sync::Arc};

use super::{AllocSlot, JobSlot, Store, eval_of, rules::Rules};
use crate::{
    command::{Outcome, Refusal},
    deployment::{
        AllocHealth, Deployment, DeploymentGroup, DeploymentStatus, NewDeployment, PromoteDeployment,
        SetDeployment, UnhealthyAlloc,
    },
    eval::Trigger,
    event::{DeploymentChange, StateChange},
    ids::{AllocId, DeploymentId},
    store::AllocRow,
    time::Timestamp,
};

/// What a plan placed for a deployment, by group: how many, and which of them are canaries.
pub(super) type PlacedByGroup = BTreeMap<u16, (u32, Vec<AllocId>)>;

/// Events among which one that reports the same is looked for.
const EVENTS_LOOKED_AT: usize = 8;
/// Of a deployment that a newer version has overtaken.
pub(super) const NEWER_VERSION: &str = "Cancelled due to newer version of job";
/// Of a deployment whose job was stopped.
pub(super) const JOB_STOPPED: &str = "Cancelled because job is stopped";

impl Store {
    /// A version of a job has one deployment: what is asked for a second time is there.
    pub(super) fn create_deployment(
        &mut self,
        job: JobSlot,
        version: u64,
        new: NewDeployment,
        events: &mut Vec<StateChange>,
    ) {
        let Some(row) = self.jobs.row(job).filter(|row| row.current().version == version) else { return };
        let (key, job_create_index) = (row.key.clone(), row.create_index);
        let is_known = self.deployments.of_version(&key, version).or(self.deployments.get(new.id)).is_some();
        if row.job().stop || is_known {
            return;
        }
        let NewDeployment { id, mut groups } = new;
        self.count_carried(job, &mut groups);
        groups.iter_mut().filter(|group| group.placed > 0).for_each(|group| expect_progress(group, self.at));
        let awaits = groups.iter().any(DeploymentGroup::is_canarying);
        let deployment = Deployment {
            id,
            job: key,
            job_version: version,
            status: DeploymentStatus::Running,
            description: running(awaits).to_owned(),
            groups,
            created_at: self.at,
            modified_at: self.at,
            create_index: self.index,
            modify_index: self.index,
            job_create_index,
        };
        self.deployments.insert(job, deployment);
        events.push(StateChange::DeploymentChanged(id, DeploymentChange::Status));
    }

    /// Counts the allocations that go on unchanged.
    fn count_carried(&self, job: JobSlot, groups: &mut [DeploymentGroup]) {
        if groups.iter().all(|group| group.carried.is_empty()) {
            return;
        }
        let Some(row) = self.jobs.row(job) else { return };
        for slot in self.jobs.allocs(row) {
            let Some(alloc) = self.allocs.row(slot).filter(|alloc| alloc.is_desired()) else { continue };
            let carrier = groups.iter_mut().find(|group| group.carries(alloc.job_version, alloc.group));
            if let Some(group) = carrier {
                group.placed += 1;
                group.healthy += u32::from(self.is_healthy_if_carried(slot));
            }
        }
    }

    /// Counts what a plan has placed.
    pub(super) fn count_placed(
        &mut self,
        job: JobSlot,
        version: u64,
        placed: PlacedByGroup,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) {
        let Some(id) = self.deployments.active_of(job).filter(|d| d.job_version == version).map(|d| d.id)
        else {
            return;
        };
        let names =
            self.jobs.row(job).and_then(|row| row.version(version)).map(|version| version.job.clone());
        let at = self.at;
        let is_per_node = names.as_ref().is_some_and(|job| job.job_type.is_per_node());
        self.change_deployment(job, (id, DeploymentChange::Status), events, |deployment| {
            for (group, (count, canaries)) in placed {
                let name = names.as_ref().and_then(|job| job.groups.get(usize::from(group)));
                let of = |group: &&mut DeploymentGroup| name.is_some_and(|name| name.name == group.name);
                let Some(group) = deployment.groups.iter_mut().find(of) else { continue };
                let is_untimed = group.require_progress_by == Timestamp::default();
                if is_untimed || rules.deadlines_begin_anew() && has_all(group, is_per_node) {
                    expect_progress(group, at);
                }
                group.placed = group.placed.saturating_add(count);
                group.canaries.extend(canaries);
            }
        });
    }

    /// An allocation that was desired to run is so no more, or has ended by itself: what it showed counts no longer.
    pub(super) fn count_left(&mut self, slot: AllocSlot, rules: Rules, events: &mut Vec<StateChange>) {
        let Some(row) = self.allocs.row(slot).copied() else { return };
        let Some((id, group)) = self.deployment_of(&row) else { return };
        let (healthy, at) = (self.is_proven(slot, id), self.at);
        self.change_deployment(row.job, (id, DeploymentChange::Status), events, |deployment| {
            let Some(group) = deployment.groups.get_mut(group) else { return };
            group.gone = group.gone.saturating_add(1);
            if healthy {
                one_healthy_less(group, rules, at);
            }
        });
    }

    /// Whether an allocation counts as healthy in its deployment.
    pub fn is_proven(&self, slot: AllocSlot, id: DeploymentId) -> bool {
        let version = self.deployments.get(id).map(|deployment| deployment.job_version);
        let is_own = self.allocs.row(slot).is_some_and(|row| version == Some(row.job_version));
        match self.allocs.detail(slot).and_then(|detail| detail.healthy) {
            Some(healthy) => healthy,
            None => !is_own && self.is_healthy_if_carried(slot),
        }
    }

    /// Whether an allocation that a newer deployment carries over counts as healthy there: it has shown that it is, or
    /// whatever placed it did not ask, or was through with it.
    pub fn is_healthy_if_carried(&self, slot: AllocSlot) -> bool {
        let Some(row) = self.allocs.row(slot) else { return false };
        let healthy = self.allocs.detail(slot).and_then(|detail| detail.healthy);
        let before =
            self.jobs.row(row.job).and_then(|job| self.deployments.of_version(&job.key, row.job_version));
        let over = || before.is_none_or(|before| before.status == DeploymentStatus::Successful);
        healthy.unwrap_or_else(over)
    }

    /// How many of a group's canaries are there and have shown that they are well.
    pub fn healthy_canaries(&self, group: &DeploymentGroup) -> u32 {
        let is_well = |id: &&AllocId| {
            let Some((slot, row)) = self.alloc(**id) else { return false };
            row.is_desired() && self.allocs.detail(slot).is_some_and(|detail| detail.healthy == Some(true))
        };
        u32::try_from(group.canaries.iter().filter(is_well).count()).unwrap_or(u32::MAX)
    }

    /// Whether nothing is left to be shown before a group may be promoted.
    pub fn has_healthy_canaries(&self, group: &DeploymentGroup) -> bool {
        group.is_canarying() && self.healthy_canaries(group) >= group.desired_canaries
    }

    /// Whether the active deployment of the job carries over what this one has placed: it shows what of that is healthy.
    pub fn is_carried(&self, over: &Deployment) -> bool {
        let active = self.jobs.find(&over.job).and_then(|job| self.deployments.active_of(job));
        let carried = active.into_iter().flat_map(|active| &active.groups).flat_map(|group| &group.carried);
        carried.into_iter().any(|(version, _)| *version == over.job_version)
    }

    /// The deployment that an allocation is part of: the active one of its job, or the one of its version.
    pub fn deployment_with(&self, row: &AllocRow) -> Option<&Arc<Deployment>> {
        if self.deployments.is_empty() {
            return None;
        }
        if let Some((id, _)) = self.deployment_of(row) {
            return self.deployments.get(id);
        }
        let key = &self.jobs.row(row.job)?.key;
        self.deployments.of_version(key, row.job_version)
    }

    /// The active deployment that an allocation is part of, and the position of its group there.
    fn deployment_of(&self, row: &AllocRow) -> Option<(DeploymentId, usize)> {
        let deployment = self.deployments.active_of(row.job)?;
        let (_, group) = self.job_of(row)?;
        let at = deployment.groups.iter().position(|other| other.name == group.name)?;
        let is_part = row.job_version == deployment.job_version
            || deployment.groups[at].carries(row.job_version, row.group);
        is_part.then_some((deployment.id, at))
    }

    /// The active deployment that rests on what was found of an allocation; none where the state says so already.
    pub fn needs_evidence(&self, slot: AllocSlot, healthy: bool) -> Option<DeploymentId> {
        let row = self.allocs.row(slot)?;
        let known = self.allocs.detail(slot).and_then(|detail| detail.healthy);
        let changes = known != Some(true) && known != Some(healthy) && !(row.is_terminal() && healthy);
        self.deployment_of(row).filter(|_| changes).map(|(id, _)| id)
    }

    /// What agents found. Once healthy, an allocation counts as healthy for as long as it is there.
    pub(super) fn set_alloc_health(
        &mut self,
        found: Vec<AllocHealth>,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) {
        for health in found {
            self.judge_alloc(health, rules, events);
        }
    }

    fn judge_alloc(&mut self, health: AllocHealth, rules: Rules, events: &mut Vec<StateChange>) {
        let AllocHealth { alloc, healthy, message, revision } = health;
        let Some((slot, row)) = self.alloc(alloc).map(|(slot, row)| (slot, *row)) else { return };
        if revision.unwrap_or_default() != row.revision() {
            return;
        }
        let Some((id, group)) = self.deployment_of(&row) else { return };
        if self.needs_evidence(slot, healthy).is_none() {
            return;
        }
        let counted = row.is_desired() && self.is_proven(slot, id);
        let counts = healthy && row.is_desired() && !counted;
        self.allocs.update(slot, self.index, self.at, |_, detail| detail.healthy = Some(healthy));
        self.jobs.alloc_changed(row.job, self.index);
        events.push(StateChange::AllocHealthChanged(slot));
        let at = self.at;
        self.change_deployment(row.job, (id, DeploymentChange::AllocHealth), events, |deployment| {
            let Some(group) = deployment.groups.get_mut(group) else { return };
            if counts {
                group.healthy = group.healthy.saturating_add(1);
                expect_progress(group, at);
            } else if !healthy {
                if counted && rules.unhealthy_ones_are_not_counted() {
                    one_healthy_less(group, rules, at);
                }
                group.unhealthy = group.unhealthy.saturating_add(1);
                group.culprit = Some(UnhealthyAlloc { alloc, message });
            }
        });
    }

    pub(super) fn set_deployment(&mut self, set: SetDeployment, events: &mut Vec<StateChange>) -> Outcome {
        let SetDeployment { id, status, description, revert_to, eval } = set;
        let job = self.active_job(id)?;
        let at = self.at;
        self.change_deployment(job, (id, DeploymentChange::Status), events, |deployment| {
            if deployment.status == DeploymentStatus::Paused && status == DeploymentStatus::Running {
                // What was held is given its time again.
                let has_started =
                    |group: &&mut DeploymentGroup| group.require_progress_by != Timestamp::default();
                deployment.groups.iter_mut().filter(has_started).for_each(|group| expect_progress(group, at));
            }
            deployment.status = status;
            deployment.description = description;
        });
        if status == DeploymentStatus::Successful {
            self.mark_stable(id, job, events);
        }
        let stable = revert_to
            .and_then(|version| self.jobs.row(job)?.version(version))
            .map(|v| (v.job.clone(), v.submission.clone()));
        if let Some((mut stable, submission)) = stable {
            // It may have been stopped since.
            if stable.stop {
                Arc::make_mut(&mut stable).stop = false;
            }
            self.register_version(stable, submission, events);
        }
        self.go_on(job, eval, events);
        Ok(())
    }

    pub(super) fn promote_deployment(
        &mut self,
        promote: PromoteDeployment,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let PromoteDeployment { id, groups, eval } = promote;
        let job = self.active_job(id)?;
        let deployment = self.deployments.get(id).ok_or(Refusal::NoDeployment(id))?;
        let refuse = |why: String| Err(Refusal::NotPromotable(id, why));
        let named = |group: &DeploymentGroup| groups.as_ref().is_none_or(|names| names.contains(&group.name));
        if let Some(name) = groups.iter().flatten().find(|name| deployment.group(name).is_none()) {
            return refuse(format!("it has no group {name:?}"));
        }
        let canarying = || deployment.groups.iter().filter(|group| named(group) && group.is_canarying());
        if canarying().next().is_none() {
            return refuse("it has no canaries to promote".to_owned());
        }
        let healthy = |group: &DeploymentGroup| match rules.canaries_count_alone() {
            true => self.healthy_canaries(group),
            false => group.healthy,
        };
        if let Some(group) = canarying().find(|group| healthy(group) < group.desired_canaries) {
            let (name, healthy, desired) = (&group.name, healthy(group), group.desired_canaries);
            return refuse(format!("group {name:?} has {healthy} of {desired} canaries healthy"));
        }
        let at = self.at;
        self.change_deployment(job, (id, DeploymentChange::Promotion), events, |deployment| {
            let named = |group: &DeploymentGroup| groups.as_ref().is_none_or(|n| n.contains(&group.name));
            for group in deployment.groups.iter_mut().filter(|group| named(group) && group.is_canarying()) {
                group.promoted = true;
                expect_progress(group, at);
            }
            let awaits = deployment.groups.iter().any(DeploymentGroup::is_canarying);
            if deployment.status == DeploymentStatus::Running {
                deployment.description = running(awaits).to_owned();
            }
        });
        self.go_on(job, Some(eval), events);
        Ok(())
    }

    /// The job's active deployment is cancelled.
    pub(super) fn cancel_deployment(&mut self, job: JobSlot, why: &str, events: &mut Vec<StateChange>) {
        let Some(id) = self.deployments.active_of(job).map(|deployment| deployment.id) else { return };
        self.change_deployment(job, (id, DeploymentChange::Status), events, |deployment| {
            deployment.status = DeploymentStatus::Cancelled;
            deployment.description = why.to_owned();
        });
    }

    /// A deployment that is over may go, unless it is the last one of its job, or what it left is still to be judged.
    pub(super) fn collect_deployment(
        &mut self,
        id: DeploymentId,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) {
        let may_go = |over: &&Arc<Deployment>| !over.is_active() && rules.may_collect_deployment(self, over);
        let Some(deployment) = self.deployments.get(id).filter(may_go) else { return };
        let last = self.deployments.of_job(&deployment.job).next_back().map(|last| last.id);
        if last != Some(id) && self.deployments.remove(id, self.index).is_some() {
            events.push(StateChange::DeploymentCollected(id));
        }
    }

    /// All of a job's deployments go with it.
    pub(super) fn collect_deployments_of(&mut self, job: JobSlot, events: &mut Vec<StateChange>) {
        let Some(key) = self.jobs.row(job).map(|row| row.key.clone()) else { return };
        let ids: Vec<DeploymentId> = self.deployments.of_job(&key).map(|deployment| deployment.id).collect();
        self.deployments.drop_job(job);
        for id in ids {
            self.deployments.remove(id, self.index);
            events.push(StateChange::DeploymentCollected(id));
        }
    }

    fn active_job(&self, id: DeploymentId) -> Result<JobSlot, Refusal> {
        let deployment = self.deployments.get(id).ok_or(Refusal::NoDeployment(id))?;
        if !deployment.is_active() {
            return Err(Refusal::DeploymentOver(id, deployment.status.as_str().to_owned()));
        }
        self.jobs.find(&deployment.job).ok_or_else(|| Refusal::NoJob(deployment.job.clone()))
    }

    fn change_deployment(
        &mut self,
        job: JobSlot,
        (id, what): (DeploymentId, DeploymentChange),
        events: &mut Vec<StateChange>,
        change: impl FnOnce(&mut Deployment),
    ) {
        let at = self.at;
        self.deployments.update(job, id, self.index, |deployment| {
            change(deployment);
            deployment.modified_at = at;
        });
        let reported = StateChange::DeploymentChanged(id, what);
        // A list of thousands is not searched for it: to be listed twice does no harm.
        if !events.iter().rev().take(EVENTS_LOOKED_AT).any(|event| *event == reported) {
            events.push(reported);
        }
    }

    fn mark_stable(&mut self, id: DeploymentId, job: JobSlot, events: &mut Vec<StateChange>) {
        let Some(version) = self.deployments.get(id).map(|deployment| deployment.job_version) else { return };
        self.jobs.update(job, self.index, |row| {
            row.change_version(version, |version| version.stable = true);
        });
        events.push(StateChange::JobStatusChanged(job));
    }

    /// Makes the evaluation that goes on with a job.
    fn go_on(&mut self, job: JobSlot, eval: Option<crate::ids::EvalId>, events: &mut Vec<StateChange>) {
        let Some(current) = self.jobs.row(job).map(|row| Arc::clone(row.job())) else { return };
        if let Some(eval) = eval {
            self.create_eval(eval_of(eval, &current, Trigger::DeploymentWatcher), events);
        }
    }
}

/// Whether a group has shown all that it must. Where it has an allocation a node, what its deployment began with says little of it.
fn has_all(group: &DeploymentGroup, is_per_node: bool) -> bool {
    group.live() > 0 && group.healthy == group.live() && (is_per_node || group.healthy >= group.desired_total)
}

/// The next one must become healthy within the group's time.
fn expect_progress(group: &mut DeploymentGroup, now: Timestamp) {
    if !group.progress_deadline.is_zero() {
        group.require_progress_by = now.after(group.progress_deadline);
    }
}

/// What was progress is none any more: whatever takes its place has the group's time from now on.
fn one_healthy_less(group: &mut DeploymentGroup, rules: Rules, now: Timestamp) {
    group.healthy = group.healthy.saturating_sub(1);
    if rules.deadlines_begin_anew() {
        expect_progress(group, now);
    }
}

fn running(awaits_promotion: bool) -> &'static str {
    if awaits_promotion {
        "Deployment is running but requires manual promotion"
    } else {
        "Deployment is running"
    }
}

//! How far a new version of a group may replace the one before, for now.

use berth_model::{
    Timestamp,
    deployment::{Deployment, DeploymentGroup, DeploymentStatus},
    job::{Group, Update},
    store::{AllocExtra, AllocRow, JobRow, Store},
};

use super::ExistingAlloc;

/// Whether a canary still shows what its version is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CanaryState {
    /// It is none, or is one no more: its group was promoted.
    No,
    /// It stands beside the old allocations.
    Open,
    /// Its deployment has failed or was cancelled.
    Discarded,
}

/// The rules of one group's update.
pub(super) struct Rollout<'a> {
    store: &'a Store,
    row: &'a JobRow,
    group: &'a Group,
    /// None where all are replaced at once, and nothing is watched.
    policy: Option<&'a Update>,
    /// Of the job's current version.
    deployment: Option<&'a Deployment>,
}

impl<'a> Rollout<'a> {
    pub(super) fn of(store: &'a Store, row: &'a JobRow, group: &'a Group) -> Self {
        let policy = group.deployed_by(row.job().job_type);
        let current = || store.deployments().of_version(&row.key, row.current().version);
        let deployment = policy.and_then(|_| current()).map(|deployment| &**deployment);
        Self { store, row, group, policy, deployment }
    }

    /// Allocations that may be replaced at once beside those that are not known to be healthy yet; none for all of them.
    pub(super) fn limit(&self) -> Option<u32> {
        let policy = self.policy?;
        match () {
            () if self.is_held() => Some(0),
            () if self.is_canarying() => Some(0),
            () => Some(policy.max_parallel),
        }
    }

    /// Whether nothing more is to change for now, or for good.
    pub(super) fn is_held(&self) -> bool {
        let status = self.deployment.map(|deployment| deployment.status);
        matches!(status, Some(DeploymentStatus::Paused | DeploymentStatus::Failed))
    }

    /// Whether what is found unhealthy is replaced: its deployment goes on, and gives it time.
    pub(super) fn replaces_unhealthy(&self) -> bool {
        let active = self.deployment.filter(|deployment| deployment.status == DeploymentStatus::Running);
        active.and_then(|deployment| deployment.group(&self.group.name)).is_some_and(waits_for_progress)
    }

    /// How many canaries the group wants: of a deployment that is to be made, as `beside` says whether there is
    /// anything that they stand beside.
    pub(super) fn canaries(&self, beside: bool) -> u32 {
        match (self.group_of_deployment(), self.policy) {
            (Some(group), _) if group.promoted || self.is_through() => 0,
            (Some(group), _) => group.desired_canaries,
            (None, Some(policy)) if self.deployment.is_none() && beside => policy.canary,
            _ => 0,
        }
    }

    /// The same for a group with one allocation a node, of which `old` are of an older version: `canary` is a part of
    /// them, in percent.
    pub(super) fn node_canaries(&self, old: usize) -> u32 {
        let part = |percent: u32| (old as u64 * u64::from(percent.min(100))).div_ceil(100);
        match (self.group_of_deployment(), self.policy) {
            (Some(group), _) if group.promoted || self.is_through() => 0,
            (Some(group), _) => group.desired_canaries,
            (None, Some(policy)) if self.deployment.is_none() => {
                u32::try_from(part(policy.canary)).unwrap_or(u32::MAX)
            }
            _ => 0,
        }
    }

    /// When the next allocations of a group with one a node may be replaced: `stagger` after the last ones were, but soon
    /// enough that the wait alone does not fail the deployment.
    pub(super) fn stagger_until(&self, existing: &[&ExistingAlloc<'_>]) -> Option<Timestamp> {
        let (policy, deployment) = (self.policy?, self.deployment?);
        let patience = Some(policy.progress_deadline / 2).filter(|patience| !patience.is_zero());
        let stagger = patience.into_iter().chain([policy.stagger]).min()?;
        let own = existing.iter().filter(|alloc| alloc.row.job_version == deployment.job_version);
        let placed = own.filter_map(|alloc| {
            let detail = self.store.allocs().detail(alloc.slot)?;
            detail.extra()?.previous.map(|_| detail.created_at)
        });
        placed.max().filter(|_| !stagger.is_zero()).map(|at| at.after(stagger))
    }

    /// Whether canaries may be placed now.
    pub(super) fn may_place_canaries(&self) -> bool {
        self.deployment.is_none_or(|deployment| deployment.status == DeploymentStatus::Running)
    }

    /// Whether the deployment is there and waits for its promotion.
    fn is_canarying(&self) -> bool {
        !self.is_through() && self.group_of_deployment().is_some_and(DeploymentGroup::is_canarying)
    }

    /// Whether the deployment is there and successful. Where the nodes of the old allocations did not take new work it may be so
    /// without a promotion: nothing asks for one any more.
    pub(super) fn is_through(&self) -> bool {
        self.deployment.is_some_and(|deployment| deployment.status == DeploymentStatus::Successful)
    }

    fn group_of_deployment(&self) -> Option<&'a DeploymentGroup> {
        self.deployment?.group(&self.group.name)
    }

    /// What an allocation of any version is, as a canary.
    pub(super) fn canary(&self, alloc: &ExistingAlloc<'_>) -> CanaryState {
        canary_state(self.store, self.row, (alloc.row, alloc.extra), alloc.group)
    }

    /// What the deployment of this version begins with for this group; none when it has one, or needs none.
    pub(super) fn begin(
        &self,
        desired: u32,
        canaries: u32,
        existing: &[&ExistingAlloc<'_>],
    ) -> Option<DeploymentGroup> {
        let policy = self.policy.filter(|_| self.deployment.is_none() && desired > 0)?;
        let mut group = DeploymentGroup {
            name: self.group.name.clone(),
            desired_total: desired,
            desired_canaries: canaries,
            promoted: canaries == 0,
            auto_promote: policy.auto_promote,
            auto_revert: policy.auto_revert,
            progress_deadline: policy.progress_deadline,
            ..DeploymentGroup::default()
        };
        // Who goes on unchanged is counted when it is written.
        for alloc in existing.iter().filter(|e| e.row.is_desired() && e.is_current && !e.is_outdated) {
            let version_group = (alloc.row.job_version, alloc.row.group);
            if !group.carried.contains(&version_group) {
                group.carried.push(version_group);
            }
        }
        Some(group)
    }
}

/// What an allocation of any version of a group is, as a canary.
pub(super) fn canary_state(
    store: &Store,
    job: &JobRow,
    (row, extra): (&AllocRow, Option<&AllocExtra>),
    group: &str,
) -> CanaryState {
    if !extra.is_some_and(|extra| extra.canary) {
        return CanaryState::No;
    }
    let Some(deployment) = store.deployments().of_version(&job.key, row.job_version) else {
        return CanaryState::No;
    };
    let is_open = deployment.is_active() && row.job_version == job.current().version;
    match deployment.group(group) {
        Some(group) if !group.promoted && is_open => CanaryState::Open,
        Some(_) if deployment.status == DeploymentStatus::Successful => CanaryState::No,
        Some(group) if !group.promoted => CanaryState::Discarded,
        _ => CanaryState::No,
    }
}

fn waits_for_progress(group: &DeploymentGroup) -> bool {
    !group.progress_deadline.is_zero()
}

//! What becomes of deployments: evidence of the health of their allocations goes into the log, and what follows from it.

use berth_model::{
    DeploymentId, EvalId,
    command::Command,
    deployment::{AllocHealth, DeploymentStatus, PromoteDeployment, SetDeployment},
    eval::Trigger,
    observed::ObservedAlloc,
    store::{AllocSlot, Store},
};

use super::{Leader, Replica, rollouts::DeploymentVerdict, unhealthy::why_unhealthy};
use crate::messages::ReportedAlloc;

impl Leader {
    /// An agent has found how an allocation is. Only what an active deployment rests on is written.
    pub(super) fn on_health(&mut self, store: &Store, slot: AllocSlot, alloc: &ObservedAlloc) {
        let Some(healthy) = alloc.healthy else { return };
        // What an older version has shown is nothing that this one has.
        if store.allocs().row(slot).is_none_or(|row| row.revision() != alloc.revision) {
            return;
        }
        let Some(deployment) = store.needs_evidence(slot, healthy) else { return };
        // For another deployment it is still to be written: what was on its way for that one changed nothing.
        if self.work.judging.insert(alloc.id, (deployment, healthy)) == Some((deployment, healthy)) {
            return;
        }
        let message = if healthy { String::new() } else { why_unhealthy(alloc) };
        let revision = Some(alloc.revision).filter(|revision| *revision > 0);
        self.work.found.push(AllocHealth { alloc: alloc.id, healthy, message, revision });
        let job = store.allocs().row(slot).and_then(|row| store.jobs().row(row.job));
        // One that is well is seen with its deployment, one that is not may have to be replaced.
        if let Some(job) = job.filter(|_| !healthy) {
            self.work.wanting.entry(job.key.clone()).or_insert(Trigger::DeploymentWatcher);
        }
    }

    /// The same of what is published.
    pub(super) fn on_seen_health(&mut self, store: &Store, seen: &ReportedAlloc) {
        if let Some(slot) = seen.slot_in(store) {
            self.on_health(store, slot, &seen.alloc);
        }
    }

    /// A deployment rests on allocations that were there before it: what they have shown is evidence now.
    pub(super) fn look_for_evidence(&mut self, replica: &Replica, id: DeploymentId) {
        let store = replica.store();
        let Some(deployment) = store.deployments().get(id).filter(|deployment| deployment.is_active()) else {
            return;
        };
        let Some(row) = store.job(&deployment.job) else { return };
        for slot in store.jobs().allocs(row) {
            let Some(id) = store.allocs().row(slot).map(|row| row.id) else { continue };
            if let Some(seen) = replica.observed().get(slot, id) {
                self.on_health(store, slot, &seen.alloc);
            } else if store.needs_evidence(slot, false).is_some()
                && let Some(ended) = replica.observed().ended(slot, id)
            {
                // To be read it has to be decoded: only where it can say something that is not known.
                self.on_health(store, slot, &ended);
            }
        }
    }

    /// Evidence goes into one entry, with what else ended, as far as it fits.
    pub(super) fn write_evidence(&mut self) {
        let found = std::mem::take(&mut self.work.found);
        self.outbox.push_list(&found, &Command::SetAllocHealth);
    }

    /// Draws the consequences of what deployments have shown, and of the time that they took.
    pub(super) fn judge_deployments(&mut self, store: &Store) {
        for (id, job, verdict) in self.work.rollouts.judge(store, self.time) {
            match verdict {
                DeploymentVerdict::GoOn => {
                    self.work.wanting.entry(job).or_insert(Trigger::DeploymentWatcher);
                }
                DeploymentVerdict::Promote(groups) => {
                    let eval = EvalId(self.ids.mint());
                    let promote = PromoteDeployment { id, groups: Some(groups), eval };
                    self.outbox.push(Command::PromoteDeployment(Box::new(promote)));
                }
                DeploymentVerdict::Successful => {
                    let why = "Deployment completed successfully".to_owned();
                    self.set_deployment(id, DeploymentStatus::Successful, why, None, None);
                }
                DeploymentVerdict::Failed(why, revert_to) => {
                    let eval = Some(EvalId(self.ids.mint()));
                    self.set_deployment(id, DeploymentStatus::Failed, why, revert_to, eval);
                }
            }
        }
    }

    fn set_deployment(
        &mut self,
        id: DeploymentId,
        status: DeploymentStatus,
        description: String,
        revert_to: Option<u64>,
        eval: Option<EvalId>,
    ) {
        let set = SetDeployment { id, status, description, revert_to, eval };
        self.outbox.push(Command::SetDeployment(Box::new(set)));
    }
}

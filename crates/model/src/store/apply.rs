//! `apply`: the one way in which the replicated state changes. Pure and deterministic, no clock, no randomness.

mod acl;
mod allocs;
mod collect;
mod deployments;
mod drains;
mod evals;
mod jobs;
mod joins;
mod keyring;
mod launch;
mod node_pools;
mod nodes;
mod plan;
mod promises;
mod replaced;
mod restore;
mod rules;
mod scale;
mod scheduling;
mod tenants;
mod variables;
mod versions;

use std::sync::Arc;

use rules::Rules;

use super::{AllocRow, AllocSlot, JobSlot, NodeSlot, Store, jobs::StatusChanged};
use crate::{
    command::{Command, Entry, Outcome, Refusal},
    eval::{Eval, Trigger},
    event::{AppliedEntry, StateChange},
    ids::EvalId,
    job::Job,
};

impl Store {
    /// Applies one entry and reports what came of each command and what changed.
    ///
    /// # Panics
    /// When the entry's index is not above the last one's: the log is broken, and going on would hide it.
    pub fn apply(&mut self, entry: Entry) -> AppliedEntry {
        assert!(entry.index > self.index, "entry {} applied after {}", entry.index, self.index);
        self.index = entry.index;
        self.at = self.at.max(entry.at);
        self.version = self.version.max(entry.version);
        let mut events = Vec::new();
        let rules = Rules::of(entry.version);
        let commands = entry.commands.into_iter();
        let outcomes = commands.map(|command| self.apply_command(command, rules, &mut events)).collect();
        AppliedEntry { index: self.index, at: self.at, outcomes, events }
    }

    fn apply_command(&mut self, command: Command, rules: Rules, events: &mut Vec<StateChange>) -> Outcome {
        match command {
            Command::GrantIndexes(until) => self.granted = self.granted.max(until),
            Command::RegisterNode(node) => self.register_node(*node, rules, events),
            Command::SetNodeStatus(id, status, decided_on) => {
                self.set_node_status(id, status, decided_on, rules, events)?;
            }
            Command::SetNodeEligibility(id, eligible) => {
                self.set_node_eligibility(id, eligible, rules, events)?
            }
            Command::RegisterJob(register) => self.register_job(*register, events)?,
            Command::DeregisterJob(deregister) => self.deregister_job(&deregister, rules, events)?,
            Command::CommitPlan(plan) => self.commit_plan(*plan, (rules.plan(), rules), events)?,
            Command::CommitPlanUnchecked(plan) => {
                self.commit_plan(*plan, (plan::Recheck::Nothing, rules), events)?;
            }
            Command::CreateEvals(evals) => evals.into_iter().for_each(|eval| self.create_eval(eval, events)),
            Command::EndAllocs(ends) => {
                ends.into_iter().for_each(|end| self.end_alloc(end, rules, events));
            }
            Command::StopAlloc(id, eval) => self.stop_alloc_by_request(id, *eval, rules, events)?,
            Command::SetEvalStatus(id, status, why) => self.set_eval_status(id, status, why, events)?,
            Command::SetEvalPriority(id, priority) => self.set_eval_priority(id, priority, events)?,
            Command::ScaleJob(scale) => self.scale_job(*scale, rules, events)?,
            Command::SetSchedulerConfig(set) => self.set_scheduler_config(*set, events)?,
            Command::PutNamespace(namespace) => self.put_namespace(*namespace, events)?,
            Command::DeleteNamespace(name) => self.delete_namespace(&name, events)?,
            Command::PutQuota(quota) => self.put_quota(*quota, events)?,
            Command::DeleteQuota(name) => self.delete_quota(&name, events)?,
            Command::PutNodePool(pool) => self.put_node_pool(*pool, events)?,
            Command::DeleteNodePool(name) => self.delete_node_pool(&name, events)?,
            Command::ChangeAcl(change) => self.change_acl(*change, rules, events)?,
            Command::ChangeKeyring(change) => self.change_keyring(*change, events)?,
            Command::ChangeVariable(change) => self.change_variable(*change, events)?,
            Command::LaunchJob(launch) => self.launch_job(*launch, rules, events)?,
            Command::RestorePart(part) => self.restore_part(&part, rules, events)?,
            Command::AbandonRestore => self.restoring = None,
            Command::SetAllocHealth(found) => self.set_alloc_health(found, rules, events),
            Command::SetDeployment(set) => self.set_deployment(*set, events)?,
            Command::PromoteDeployment(promote) => self.promote_deployment(*promote, rules, events)?,
            Command::DrainNode(drain) => self.drain_node(*drain, rules, events)?,
            Command::MigrateAllocs(allocs) => self.migrate_allocs(&allocs, events),
            Command::EndDrain(node, started_at) => self.end_drain(node, started_at, rules, events)?,
            Command::SetJobStable(set) => self.set_job_stable(&set, events)?,
            Command::TagVersion(tag) => self.tag_version(*tag, events)?,
            Command::FoundCluster(id) => self.found_cluster(id)?,
            Command::Collect(collect) => self.collect(&collect, rules, events),
            Command::RunJob(run) => self.run_job(*run, events)?,
        }
        Ok(())
    }

    fn found_cluster(&mut self, id: u128) -> Outcome {
        match self.cluster.id {
            0 if id == 0 => Err(Refusal::NoClusterId),
            0 => {
                Arc::make_mut(&mut self.cluster).id = id;
                Ok(())
            }
            founded => Err(Refusal::ClusterFounded(founded)),
        }
    }

    /// Reports that a job became pending, running or dead, unless a change of the job itself has just been reported.
    fn job_counted(
        &self,
        slot: JobSlot,
        StatusChanged(changed): StatusChanged,
        events: &mut Vec<StateChange>,
    ) {
        let reported = matches!(
            events.last(),
            Some(StateChange::JobRegistered(reported) | StateChange::JobDeregistered(reported) | StateChange::JobStatusChanged(reported))
                if *reported == slot
        );
        if changed && !reported {
            events.push(StateChange::JobStatusChanged(slot));
        }
    }
}

fn eval_of(id: EvalId, job: &Job, trigger: Trigger) -> Eval {
    Eval::pending(id, job.key.clone(), job.job_type, job.priority, trigger)
}

//! Applying what becomes of jobs.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    AllocSlot, JobSlot, Store,
    deployments::{JOB_STOPPED, NEWER_VERSION},
    eval_of,
    rules::Rules,
};
use crate::{
    command::{DeregisterJob, Outcome, Refusal, RegisterJob, RunJob},
    eval::{EvalStatus, Trigger},
    event::StateChange,
    ids::{EvalId, Index, JobKey},
    job::{JOB_VERSIONS_MAX, Job, Submission},
    store::EvalSlot,
};

/// Of evaluations of a job that was purged.
const JOB_PURGED: &str = "the job was purged";

impl Store {
    pub(super) fn register_job(&mut self, register: RegisterJob, events: &mut Vec<StateChange>) -> Outcome {
        let RegisterJob { job, eval, only_if, submission } = register;
        if job.key.is_purged() {
            return Err(Refusal::NoJob(job.key.clone()));
        }
        let current = self.job(&job.key).map_or(Index::default(), |row| row.current().index);
        if let Some(expected) = only_if.filter(|expected| *expected != current) {
            return Err(Refusal::JobChanged { job: job.key.clone(), expected, current });
        }
        if self.namespaces.find(&job.key.namespace).is_none() {
            return Err(Refusal::NoNamespace(job.key.namespace.to_string()));
        }
        let before = self.job(&job.key).map(|row| row.job().job_type);
        if let Some(is) = before.filter(|is| *is != job.job_type) {
            return Err(Refusal::JobTypeChanged { job: job.key.clone(), is, asked: job.job_type });
        }
        self.register_version(job.clone(), submission, events);
        self.create_eval(eval_of(eval, &job, Trigger::JobRegister), events);
        Ok(())
    }

    /// Makes a run of a job that somebody asked for, as long as that job is there and not stopped.
    pub(super) fn run_job(&mut self, run: RunJob, events: &mut Vec<StateChange>) -> Outcome {
        let RunJob { job, eval } = run;
        let parent = JobKey::new(&job.key.namespace, &job.parent_id);
        let row = self.job(&parent).ok_or_else(|| Refusal::NoJob(parent.clone()))?;
        if row.job().stop {
            return Err(Refusal::JobStopped(parent));
        }
        self.register_job(RegisterJob { job, eval, only_if: Some(Index(0)), submission: None }, events)
    }

    pub(super) fn register_version(
        &mut self,
        job: Arc<Job>,
        submission: Option<Arc<Submission>>,
        events: &mut Vec<StateChange>,
    ) {
        let before = self.job(&job.key).map(|row| row.current().version);
        let slot = self.jobs.register(job, submission, self.index, self.at);
        if before != self.jobs.row(slot).map(|row| row.current().version) {
            self.cancel_deployment(slot, NEWER_VERSION, events);
        }
        self.drop_old_versions(slot);
        events.push(StateChange::JobRegistered(slot));
    }

    /// Forgets versions over the limit that nothing needs.
    pub(super) fn drop_old_versions(&mut self, slot: JobSlot) {
        let used = self.used_versions(slot);
        self.jobs.drop_versions(slot, |version| used.contains(&version));
    }

    /// The versions that allocations run or ran: they are what tells what an allocation is, and whether finished batch
    /// work is still the work that is desired. Empty while there are too few versions for any to go.
    fn used_versions(&self, job: JobSlot) -> BTreeSet<u64> {
        let Some(row) = self.jobs.row(job).filter(|row| row.versions.len() > JOB_VERSIONS_MAX) else {
            return BTreeSet::new();
        };
        let rows = self.jobs.allocs(row).filter_map(|slot| self.allocs.row(slot));
        rows.map(|alloc| alloc.job_version).collect()
    }

    pub(super) fn deregister_job(
        &mut self,
        deregister: &DeregisterJob,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let no_job = || Refusal::NoJob(deregister.job.clone());
        let is_known = !deregister.job.is_purged();
        let slot = self.jobs.find(&deregister.job).filter(|_| is_known).ok_or_else(no_job)?;
        let mut job = Job::clone(self.jobs.row(slot).ok_or_else(no_job)?.job());
        job.stop = true;
        let job = Arc::new(job);
        let index = self.index;
        self.jobs.update(slot, index, |row| {
            row.change_current(|current| {
                current.job = job.clone();
                // Whoever changes the job knowing only what was before has not seen that it was stopped.
                current.index = index;
            });
            row.purge |= deregister.purge;
        });
        self.cancel_deployment(slot, JOB_STOPPED, events);
        events.push(StateChange::JobDeregistered(slot));
        let mut eval = eval_of(deregister.eval, &job, Trigger::JobDeregister);
        if deregister.purge && rules.purged_jobs_leave_their_names() {
            eval.job = self.free_name(slot, deregister, events);
        }
        self.create_eval(eval, events);
        Ok(())
    }

    /// Frees the name of a job that is purged. Its allocations are stopped as those of any stopped job: it stays under a key of
    /// its own until they have ended, so that whatever is registered under its name meanwhile is another job. What was to be
    /// planned for the job as it was comes too late.
    fn free_name(
        &mut self,
        slot: JobSlot,
        deregister: &DeregisterJob,
        events: &mut Vec<StateChange>,
    ) -> JobKey {
        let (name, purged) = (&deregister.job, deregister.job.purged(deregister.eval));
        let is_taken = self.jobs.find(&purged).is_some() || self.evals.find(deregister.eval).is_some();
        let Some(row) = self.jobs.row(slot).filter(|_| !is_taken) else { return name.clone() };
        let evals: Vec<EvalSlot> = self.jobs.evals(row).collect();
        let allocs: Vec<AllocSlot> = self.jobs.allocs(row).collect();
        let open = evals.iter().filter_map(|slot| self.evals.row(*slot));
        let open: Vec<EvalId> = open.filter(|eval| !eval.status.is_terminal()).map(|eval| eval.id).collect();
        for id in open {
            // It is open: nothing refuses this.
            let _ = self.set_eval_status(id, EvalStatus::Canceled, JOB_PURGED.to_owned(), events);
        }
        self.collect_deployments_of(slot, events);
        let owners = |store: &Self| -> Vec<u128> {
            let rows = allocs.iter().filter_map(|slot| store.allocs.row(*slot));
            rows.map(|row| store.owners_hash(row)).collect()
        };
        let before = owners(self);
        self.jobs.rename(slot, purged.clone(), self.index);
        self.allocs.change_owners(&before, &owners(self));
        for eval in evals {
            self.evals.update(eval, |eval| eval.job = purged.clone());
        }
        events.push(StateChange::JobPurged(slot, name.clone()));
        purged
    }
}

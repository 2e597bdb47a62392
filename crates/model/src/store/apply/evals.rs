//! Applying what becomes of evaluations.

use std::sync::Arc;

use super::{JobSlot, Store};
use crate::{
    command::{EvalOutcome, NextEval, Outcome, Refusal},
    eval::{Eval, EvalStatus, QueuedAllocs},
    event::StateChange,
    ids::{EvalId, Index},
};

impl Store {
    pub(super) fn create_eval(&mut self, mut eval: Eval, events: &mut Vec<StateChange>) {
        if self.evals.find(eval.id).is_some() {
            return;
        }
        let Some(job) = self.jobs.find(&eval.job) else { return };
        (eval.created_at, eval.modified_at) = (self.at, self.at);
        (eval.create_index, eval.modify_index) = (self.index, self.index);
        let (id, open) = (eval.id, !eval.status.is_terminal());
        let slot = self.evals.insert(Arc::new(eval));
        let changed = self.jobs.eval_added(job, slot, open, self.index);
        self.job_counted(job, changed, events);
        events.push(StateChange::EvalChanged(id));
    }

    pub(super) fn update_eval(
        &mut self,
        id: EvalId,
        events: &mut Vec<StateChange>,
        change: impl FnOnce(&mut Eval),
    ) -> Result<(), Refusal> {
        let slot = self.evals.find(id).ok_or(Refusal::NoEval(id))?;
        let before =
            self.evals.row(slot).filter(|eval| !eval.status.is_terminal()).ok_or(Refusal::NoEval(id))?;
        let job = self.jobs.find(&before.job);
        let (index, at) = (self.index, self.at);
        self.evals.update(slot, |eval| {
            change(eval);
            (eval.modify_index, eval.modified_at) = (index, at);
        });
        let closed = self.evals.row(slot).is_some_and(|eval| eval.status.is_terminal());
        if let Some(job) = job {
            let changed = self.jobs.eval_changed(job, closed, index);
            self.job_counted(job, changed, events);
        }
        events.push(StateChange::EvalChanged(id));
        Ok(())
    }

    pub(super) fn set_eval_status(
        &mut self,
        id: EvalId,
        status: EvalStatus,
        why: String,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        self.update_eval(id, events, |eval| {
            eval.status = status;
            eval.description = why;
        })
    }

    /// Gives an evaluation another priority than its job has. Whoever asks for one does it as it is made.
    pub(super) fn set_eval_priority(
        &mut self,
        id: EvalId,
        priority: u8,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let mut changed = Vec::new();
        self.update_eval(id, &mut changed, |eval| eval.priority = priority)?;
        // The command that made it has reported it already.
        changed.retain(|event| !events.contains(event));
        events.append(&mut changed);
        Ok(())
    }

    pub(super) fn finish_eval(
        &mut self,
        id: EvalId,
        snapshot_index: Index,
        job: JobSlot,
        outcome: EvalOutcome,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let blocked = outcome.next.iter().find(|next| next.status == EvalStatus::Blocked).map(|next| next.id);
        let failures = self.jobs.sharing_names(job, outcome.failures);
        let outcome = EvalOutcome { failures, ..outcome };
        self.jobs.set_queued(job, &outcome.failures.counts(), self.index);
        // Next evaluations are made first, so that the job is never seen without an open one and taken for dead.
        for next in &outcome.next {
            self.create_next_eval(id, next, &outcome, events);
        }
        self.update_eval(id, events, |eval| {
            eval.status = outcome.status;
            eval.description = outcome.description;
            eval.queued = QueuedAllocs::of(&outcome.failures);
            eval.failures = outcome.failures;
            eval.blocked = blocked;
            eval.snapshot_index = snapshot_index;
        })
    }

    fn create_next_eval(
        &mut self,
        previous: EvalId,
        next: &NextEval,
        outcome: &EvalOutcome,
        events: &mut Vec<StateChange>,
    ) {
        let Some(before) = self.evals.get(previous) else { return };
        let mut eval =
            Eval::pending(next.id, before.job.clone(), before.job_type, before.priority, next.trigger);
        eval.status = next.status;
        eval.wait_until = next.wait_until;
        eval.previous = Some(previous);
        if next.status == EvalStatus::Blocked {
            eval.failures.clone_from(&outcome.failures);
            eval.queued = QueuedAllocs::of(&outcome.failures);
        }
        self.create_eval(eval, events);
    }
}

//! What becomes of a plan: committed, planned again, or put off.

use std::{sync::Arc, time::Duration};

use berth_model::{
    EvalId, Index,
    command::{Command, NextEval},
    eval::{Eval, EvalStatus, Trigger},
    store::Store,
};
use berth_scheduler::{Ledger, Plan, Ticket};

use super::{
    Action, Leader, PlanPart, PlanTail, Purpose, RefusedPlacements, Replica, ends::set_observed_ends,
};
use crate::{applier::CheckedPlan, outbox::TooLarge};

/// How often a plan that was refused is made again before its work waits for capacity.
const ATTEMPTS_MAX: u32 = 5;
/// What is kept of the reason for which an evaluation failed.
const FAILURE_BYTES_MAX: usize = 1 << 10;

impl Leader {
    /// A planner has answered.
    pub fn on_planned(
        &mut self,
        replica: &Replica,
        term: u64,
        mut plan: Plan,
        ticket: Ticket,
        actions: &mut Vec<Action>,
    ) {
        let store = replica.store();
        if term != self.term || plan.snapshot_index < store.restored_at() {
            return discard(&self.ledger, ticket, actions);
        }
        let Some(eval) = store.eval(plan.eval).filter(|e| !e.status.is_terminal()).cloned() else {
            self.work.queue.done(plan.eval, &mut self.work.tenants);
            return discard(&self.ledger, ticket, actions);
        };
        if eval.status == EvalStatus::Blocked && self.work.blocked.waits_on(store, &eval, &plan) {
            // Still no capacity, nothing changed: nothing to write.
            self.work.queue.done(eval.id, &mut self.work.tenants);
            return discard(&self.ledger, ticket, actions);
        }
        self.drop_known_retries(store, &eval, &mut plan);
        let becomes = if eval.status == EvalStatus::Blocked && !plan.failures.is_empty() {
            // It waits on for what is left: another one would add to what is kept, and say the same.
            plan.next.retain(|next| next.status != EvalStatus::Blocked);
            EvalStatus::Blocked
        } else {
            EvalStatus::Complete
        };
        let next = self.next_evals(&plan);
        let planned_on = plan.snapshot_index;
        set_observed_ends(&mut plan.stops, store, replica.observed(), self.time);
        let verdict = self.applier.check(store, plan, ticket, (becomes, next));
        let (committed, refused) = (verdict.passed, verdict.refused.clone());
        let refused_nothing = verdict.done;
        actions.push(Action::Judged { ticket, committed, refused });
        self.write_plan(&eval, verdict, planned_on);
        if committed == 0 && refused_nothing {
            self.cancel_waiting(store, &eval);
        }
    }

    fn write_plan(&mut self, eval: &Arc<Eval>, verdict: CheckedPlan, planned_on: Index) {
        let CheckedPlan { parts, passed, done, .. } = verdict;
        let again = !done && self.is_tried_again(eval, passed);
        let superseded = self.work.blocked.of_job(&eval.job).filter(|blocked| *blocked != eval.id);
        if let Some(old) = superseded.filter(|_| done) {
            self.outbox.push(Command::SetEvalStatus(old, EvalStatus::Canceled, superseded_by(eval)));
        }
        if parts.is_empty() {
            if again {
                self.work.queue.again(eval.clone(), &mut self.work.tenants);
            }
            return;
        }
        let last = parts.len() - 1;
        let mut too_large = None;
        for (at, (command, claims)) in parts.into_iter().enumerate() {
            let tail = (at == last).then(|| PlanTail { eval: eval.clone(), again });
            let purpose = Purpose::Plan(PlanPart { job: eval.job.clone(), claims, tail });
            if too_large.is_none() {
                too_large = self.outbox.push_for(purpose, vec![command]).err();
            }
            if too_large.is_some() {
                claims.into_iter().for_each(|ticket| self.applier.release(ticket));
            }
        }
        match too_large {
            Some(TooLarge { bytes }) => {
                self.fail(eval, &format!("internal error: a part of its plan takes {bytes} bytes"));
            }
            None if done => self.cancel_answered(eval, planned_on),
            None => {}
        }
    }

    /// The plan of an evaluation is the answer to those too that had come to wait behind it before its state: what changes
    /// often is planned as fast as that goes, and no slower the more often it changes.
    fn cancel_answered(&mut self, eval: &Eval, planned_on: Index) {
        for answered in self.work.queue.answered(eval.id, planned_on) {
            let why = superseded_by(eval);
            self.outbox.push(Command::SetEvalStatus(answered.id, EvalStatus::Canceled, why));
        }
    }

    /// Nothing of a stopped job waits any more, whether for capacity or for the time of its reschedule.
    fn cancel_waiting(&mut self, store: &Store, eval: &Eval) {
        let Some(row) = store.job(&eval.job).filter(|row| row.job().stop) else { return };
        let others = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
        let waits = |other: &&Arc<Eval>| other.status == EvalStatus::Pending && other.wait_until > self.time;
        let waiting = others.filter(|other| other.id != eval.id).filter(waits);
        for id in waiting.map(|other| other.id).collect::<Vec<_>>() {
            let why = "the job was stopped".to_owned();
            self.outbox.push(Command::SetEvalStatus(id, EvalStatus::Canceled, why));
        }
    }

    /// A planner has failed on an evaluation: trying again would fail again.
    pub fn on_plan_failed(&mut self, store: &Store, term: u64, id: EvalId, reason: &str) {
        if let Some(eval) =
            store.eval(id).filter(|eval| term == self.term && !eval.status.is_terminal()).cloned()
        {
            self.fail(&eval, &format!("internal error: {reason}"));
        }
    }

    fn fail(&mut self, eval: &Eval, why: &str) {
        // It may quote what made a planner panic, however long that is.
        let why = why[..why.floor_char_boundary(FAILURE_BYTES_MAX)].to_owned();
        self.outbox.push(Command::SetEvalStatus(eval.id, EvalStatus::Failed, why));
    }

    /// What is to be looked at later is, if an evaluation waits for that time or an earlier one already.
    fn drop_known_retries(&self, store: &Store, eval: &Eval, plan: &mut Plan) {
        let Some(row) = store.job(&eval.job) else { return };
        let waiting = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
        let earliest = waiting
            .filter(|e| e.id != eval.id && e.status == EvalStatus::Pending && e.wait_until > self.time)
            .map(|e| e.wait_until)
            .min();
        plan.next.retain(|next| {
            next.status == EvalStatus::Blocked || earliest.is_none_or(|at| at > next.wait_until)
        });
    }

    fn next_evals(&mut self, plan: &Plan) -> Vec<NextEval> {
        let next = plan.next.iter();
        next.map(|next| NextEval {
            id: EvalId(self.ids.mint()),
            status: next.status,
            trigger: next.trigger,
            wait_until: next.wait_until,
        })
        .collect()
    }

    /// Part of a plan was refused: the state that it was made from had been overtaken. Whether it is planned again, which
    /// must be on a state that shows what was committed of it.
    fn is_tried_again(&mut self, eval: &Eval, passed: usize) -> bool {
        let attempts = self.work.attempts.entry(eval.id).or_default();
        *attempts = if passed > 0 { 0 } else { *attempts + 1 };
        let again = *attempts <= ATTEMPTS_MAX;
        if !again {
            self.put_off(eval);
        }
        again
    }

    /// What was committed of a plan can be seen, or is not in the log after all.
    pub(super) fn plan_again(&mut self, eval: Arc<Eval>) {
        self.work.queue.again(eval, &mut self.work.tenants);
    }

    /// Plans of an evaluation are refused time and again: goes on in another one, a little later.
    fn put_off(&mut self, eval: &Eval) {
        let id = EvalId(self.ids.mint());
        let mut later =
            Eval::pending(id, eval.job.clone(), eval.job_type, eval.priority, Trigger::MaxPlanAttempts);
        later.wait_until = self.time.after(Duration::from_secs(1));
        later.previous = Some(eval.id);
        let why = format!("plan was refused {ATTEMPTS_MAX} times, continued in evaluation {id}");
        let commands =
            vec![Command::CreateEvals(vec![later]), Command::SetEvalStatus(eval.id, EvalStatus::Failed, why)];
        self.outbox.push_for(Purpose::Own, commands).expect("they are short");
    }

    pub(super) fn retry_blocked(&mut self, store: &Store) {
        if !self.work.blocked.is_empty() {
            let freed = self.ledger.lock().take_freed();
            self.work.blocked.on_freed(store, freed);
        }
        for id in self.work.blocked.next(store, &mut self.work.tenants) {
            match store.eval(id).filter(|eval| eval.status == EvalStatus::Blocked) {
                Some(eval) => self.work.queue.push(eval.clone(), self.time),
                None => self.work.blocked.leave_out(id),
            }
        }
    }
}

fn superseded_by(eval: &Eval) -> String {
    format!("superseded by evaluation {}", eval.id)
}

/// Nobody asks for a plan any more, or it would change nothing.
pub(crate) fn discard(ledger: &Ledger, ticket: Ticket, actions: &mut Vec<Action>) {
    ledger.lock().discard(ticket);
    actions.push(Action::Judged { ticket, committed: 0, refused: RefusedPlacements::default() });
}

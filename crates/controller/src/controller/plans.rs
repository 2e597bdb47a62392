//! What becomes of a plan: committed, planned again, or put off.

use super::*;

impl Controller {
    pub(super) fn on_planned(&mut self, mut plan: Plan, ticket: Ticket, actions: &mut Vec<Action>) {
        if plan.snapshot_index < self.store.restored_at() {
            return come_to_nothing(ticket, actions);
        }
        let Some(eval) = self.store.eval(plan.eval).filter(|e| !e.status.is_terminal()).cloned() else {
            self.queue.done(plan.eval, &mut self.tenants);
            return come_to_nothing(ticket, actions);
        };
        if eval.status == EvalStatus::Blocked {
            self.blocked.tried(eval.id);
            if plan.is_noop()
                && !plan.failures.is_empty()
                && blocked::waits_for_same(&eval.failures, &plan.failures)
            {
                // Still no room, nothing changed: nothing to write.
                self.queue.done(eval.id, &mut self.tenants);
                return come_to_nothing(ticket, actions);
            }
        }
        self.drop_known_retries(&eval, &mut plan);
        let next = self.next_evals(&plan);
        let superseded = self.blocked.of_job(&eval.job).filter(|blocked| *blocked != eval.id);
        let Verdict { parts, refused, passed, done, ticket: passing } =
            self.applier.check(&self.store, plan, next);
        let written = !parts.is_empty();
        actions.push(Action::Judged { ticket, committed: passed, refused });
        let again = if done { None } else { self.again(&eval, passed, written) };
        if let Some(old) = superseded.filter(|_| done) {
            let why = format!("superseded by evaluation {}", eval.id);
            self.outbox.push(vec![Command::SetEvalStatus(old, EvalStatus::Canceled, why)], 96);
        }
        let mut tail = Some(PlanTail { planned: ticket, passing, again });
        let last = parts.len().saturating_sub(1);
        for (at, command) in parts.into_iter().enumerate() {
            let bytes = command.encoded_len();
            self.outbox.push_plan(command, bytes, if at == last { tail.take() } else { None });
        }
        if !written {
            actions.push(Action::Unclaim(ticket));
            // Others may wait because of what it had claimed.
            self.blocked.room_came();
        }
    }

    /// A retry at the same time or earlier is on its way already.
    pub(super) fn drop_known_retries(&self, eval: &Eval, plan: &mut Plan) {
        let Some(row) = self.store.job(&eval.job) else { return };
        let waiting = self.store.jobs().evals(row).filter_map(|slot| self.store.evals().row(slot));
        let earliest = waiting
            .filter(|e| e.id != eval.id && e.status == EvalStatus::Pending && e.wait_until > self.now)
            .map(|e| e.wait_until)
            .min();
        plan.next.retain(|next| {
            next.trigger != Trigger::RetryFailedAlloc || earliest.is_none_or(|at| at > next.wait_until)
        });
    }

    pub(super) fn next_evals(&mut self, plan: &Plan) -> Vec<NextEval> {
        let next = plan.next.iter();
        next.map(|next| NextEval {
            id: EvalId(self.ids.mint()),
            status: next.status,
            trigger: next.trigger,
            wait_until: next.wait_until,
        })
        .collect()
    }

    /// Part of a plan was refused: its state had been overtaken. What passed must be seen before it is planned again:
    /// returns the evaluation when that is still to come.
    pub(super) fn again(&mut self, eval: &Arc<Eval>, passed: usize, written: bool) -> Option<Arc<Eval>> {
        let attempts = self.attempts.entry(eval.id).or_default();
        *attempts = if passed > 0 { 0 } else { *attempts + 1 };
        if *attempts > ATTEMPTS_MAX {
            self.put_off(eval);
        } else if written {
            return Some(eval.clone());
        } else {
            self.queue.again(eval.clone(), &mut self.tenants);
        }
        None
    }

    /// What passed of their plans can be seen.
    pub(super) fn plan_again(&mut self, evals: Vec<Arc<Eval>>) {
        if !evals.is_empty() {
            // Others may wait because of what was claimed and refused.
            self.blocked.room_came();
        }
        evals.into_iter().for_each(|eval| self.queue.again(eval, &mut self.tenants));
    }

    /// Plans of an evaluation are refused time and again: goes on in another one, a little later.
    pub(super) fn put_off(&mut self, eval: &Eval) {
        let id = EvalId(self.ids.mint());
        let mut later =
            Eval::pending(id, eval.job.clone(), eval.job_type, eval.priority, Trigger::MaxPlanAttempts);
        later.wait_until = self.now.after(Duration::from_secs(1));
        later.previous = Some(eval.id);
        let why = format!("plan was refused {ATTEMPTS_MAX} times, continued in evaluation {id}");
        let commands =
            vec![Command::CreateEvals(vec![later]), Command::SetEvalStatus(eval.id, EvalStatus::Failed, why)];
        self.outbox.push(commands, EVAL_BYTES + 128);
    }

    pub(super) fn retry_blocked(&mut self) {
        for id in self.blocked.next(&self.store, &mut self.tenants) {
            match self.store.eval(id).filter(|eval| eval.status == EvalStatus::Blocked) {
                Some(eval) => self.queue.push(eval.clone(), self.now),
                None => self.blocked.tried(id),
            }
        }
    }
}

/// Nobody asks for a plan any more, or it would change nothing.
fn come_to_nothing(ticket: Ticket, actions: &mut Vec<Action>) {
    actions.push(Action::Judged { ticket, committed: 0, refused: Refused::default() });
    actions.push(Action::Unclaim(ticket));
}

//! The planner threads: each plans one evaluation after the other, on the published state.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_controller::{Event, PlanRequest};
use berth_model::{Timestamp, eval::Eval, panic_text, store::Store};
use berth_scheduler::{Claim, Ledger, Plan, Planner, Ticket};
use crossbeam_channel::{Receiver, Sender};

use super::{
    EngineInput, EngineShared,
    handle::random_u64,
    host_state::{HostState, Renew, Renewal},
};
use crate::{
    clock::now,
    shared::{PlanTrace, View},
};

/// Evaluations queued for each planner, so that it finds the next one when it has planned one.
const PLANNING_PER_THREAD: usize = 64;

/// How often a planner repeats a plan after a conflict with the claims of others.
const OVERTAKEN_MAX: usize = 3;

/// How many planners there are, and how they work.
#[derive(Debug, Clone, Copy)]
pub struct PlannersConfig {
    /// Threads; 0 for one less than there are processors, at least one.
    pub count: usize,
    /// How they keep up with what nodes hold.
    pub host_state: HostState,
    /// How long what is cached is good for.
    pub host_state_refresh: Duration,
}

impl PlannersConfig {
    /// How many threads that is on this machine.
    pub(crate) fn threads(&self) -> usize {
        match self.count {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get().saturating_sub(1).max(1)),
            count => count,
        }
    }

    /// Evaluations that planners have in hand at a time. Each queue has a place for every one of them, so that whoever
    /// hands them out never waits.
    pub(crate) fn planning_max(&self) -> usize {
        self.threads() * PLANNING_PER_THREAD
    }
}

/// Answers an evaluation with a plan.
type PlanFn = fn(&mut Planner, &Store, &Eval, Timestamp, u64) -> Plan;

/// The running threads; they end when the pool is dropped.
pub(crate) struct PlannerPool {
    /// One for each planner. Where planners share one queue, clones of its sender.
    queues: Vec<Sender<PlanRequest>>,
    next: usize,
}

impl PlannerPool {
    pub fn start(
        config: PlannersConfig,
        shared: &Arc<EngineShared>,
        inputs: &Sender<EngineInput>,
    ) -> std::io::Result<Self> {
        let all = crossbeam_channel::bounded(config.planning_max());
        let mut queues = Vec::new();
        for number in 0..config.threads() {
            let own = || crossbeam_channel::bounded(config.planning_max());
            let (evals, requests) = if config.host_state.is_shared() { all.clone() } else { own() };
            queues.push(evals);
            let renewal = Renewal::new(config.host_state, config.host_state_refresh);
            let thread = PlannerThread {
                number: u16::try_from(number).unwrap_or(u16::MAX),
                shared: shared.clone(),
                planner: Planner::default(),
                plan: Planner::plan,
                host_state: config.host_state,
                refresh: config.host_state_refresh,
                renewal,
            };
            let inputs = inputs.clone();
            std::thread::Builder::new()
                .name(format!("planner-{number}"))
                .spawn(move || thread.run(&inputs, &requests))?;
        }
        Ok(Self { queues, next: 0 })
    }

    /// Has an evaluation planned.
    pub fn plan(&mut self, request: PlanRequest) {
        self.next = (self.next + 1) % self.queues.len();
        let _ = self.queues[self.next].send(request);
    }
}

/// The claims of a plan. Dropped before they are handed over with the plan, they are released, even by a panic.
struct PlannerClaim {
    ledger: Ledger,
    ticket: Option<Ticket>,
}

impl PlannerClaim {
    fn hand_over(mut self) -> Ticket {
        self.ticket.take().expect("it is set when the claims are added")
    }
}

impl Drop for PlannerClaim {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.ledger.lock().release(ticket);
        }
    }
}

struct PlannerThread {
    number: u16,
    shared: Arc<EngineShared>,
    planner: Planner,
    /// The planner function.
    plan: PlanFn,
    host_state: HostState,
    refresh: Duration,
    renewal: Renewal,
}

impl PlannerThread {
    fn run(mut self, inputs: &Sender<EngineInput>, requests: &Receiver<PlanRequest>) {
        while let Ok(request) = requests.recv() {
            let (term, eval) = (request.term, &request.eval);
            // After a panic the state of the planner cannot be relied on. The evaluation fails: it would make the next planner panic.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&request)));
            let input = outcome.unwrap_or_else(|panic| {
                self.planner = Planner::default();
                self.renewal = Renewal::new(self.host_state, self.refresh);
                let reason = format!("the planner panicked: {}", panic_text(&*panic));
                tracing::error!(eval = %eval.id, job = %eval.job, reason);
                EngineInput::event(Event::PlanFailed { term, eval: eval.id, reason })
            });
            if inputs.send(input).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, PlanRequest { term, eval, now: time, awaited_until }: &PlanRequest) -> EngineInput {
        let (begun_at, started_at) = (now(), Instant::now());
        let mut overtaken = 0;
        let (plan, claim) = loop {
            let view = self.renew(started_at);
            self.planner.observe(&view.observed);
            self.planner.await_nodes(*awaited_until);
            let plan = (self.plan)(&mut self.planner, &view.store, eval, *time, random_u64());
            // Costs as much as planning.
            debug_assert!(
                !self.host_state.is_shared() || berth_scheduler::check::check(&view.store, &plan).is_empty()
            );
            match self.claim(&plan, overtaken == OVERTAKEN_MAX) {
                Some(claim) => break (plan, claim),
                None => overtaken += 1,
            }
        };
        self.shared.counters.on_planned(&plan, overtaken);
        self.shared.counters.plan_time.record(started_at.elapsed());
        let trace = PlanTrace::new(&plan, self.number, [begun_at, now()], overtaken);
        EngineInput::Planned {
            term: *term,
            plan: Box::new(plan),
            ticket: claim.hand_over(),
            trace: Box::new(trace),
        }
    }

    /// Claims what a plan takes. None when others have claimed that meanwhile: then it is cheaper to plan again at once than to have the
    /// applier refuse the plan, unless this is the `last` attempt.
    fn claim(&self, plan: &Plan, last: bool) -> Option<PlannerClaim> {
        let claims_of_plan: Vec<Claim> = plan.claims().collect();
        // Created before the lock is taken, so that on return it is dropped after the lock: its drop takes the lock again.
        let mut claim = PlannerClaim { ledger: self.shared.claims.clone(), ticket: None };
        let mut claims = self.shared.claims.lock();
        let ticket = claims.add(&plan.job.namespace, claims_of_plan);
        claim.ticket = Some(ticket);
        let may_be_overtaken = !last && self.host_state.is_shared();
        if may_be_overtaken && claims.overdraw(ticket, &self.shared.view.load().store) {
            return None;
        }
        Some(claim)
    }

    /// Brings the planner up to date before an evaluation. The view is loaded while the claims are locked: a plan is then in the state
    /// or among the claims, or in both, but never in neither.
    fn renew(&mut self, at: Instant) -> Arc<View> {
        let claims = self.shared.claims.lock();
        let view = self.shared.view.load_full();
        match self.renewal.decide(view.store.nodes().modify_index(), at) {
            Renew::Nothing => {}
            Renew::Changes => self.planner.follow(&view.store, &claims),
            Renew::Everything => {
                self.planner = Planner::default();
                self.planner.follow(&view.store, &claims);
            }
        }
        view
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{EvalId, JobKey, eval::Trigger, job::JobType};
    use berth_scheduler::ClaimHolder;
    use tokio::sync::watch;

    use super::*;

    fn eval(id: EvalId) -> Eval {
        Eval::pending(id, JobKey::new("default", "web"), JobType::Service, 50, Trigger::JobRegister)
    }

    fn thread(plan: PlanFn) -> PlannerThread {
        let (host_state, refresh) = (HostState::Incremental, Duration::from_secs(60));
        PlannerThread {
            number: 0,
            shared: Arc::new(EngineShared::new(watch::Sender::new(None))),
            planner: Planner::default(),
            plan,
            host_state,
            refresh,
            renewal: Renewal::new(host_state, refresh),
        }
    }

    #[test]
    fn a_planner_that_panics_fails_its_evaluation_by_name_and_plans_on() {
        let thread = thread(|planner, store, eval, now, seed| match eval.id {
            EvalId(1) => panic!("planted: {}", "x".repeat(2 << 20)),
            _ => planner.plan(store, eval, now, seed),
        });
        let (evals, todo) = crossbeam_channel::unbounded();
        let (inputs, answers) = crossbeam_channel::unbounded();
        for id in [EvalId(1), EvalId(2)] {
            evals
                .send(PlanRequest {
                    term: 3,
                    eval: Arc::new(eval(id)),
                    now: Timestamp(1),
                    awaited_until: Timestamp(0),
                })
                .expect("it is open");
        }
        drop(evals);
        thread.run(&inputs, &todo);
        let failed = answers.recv().expect("it answered");
        let EngineInput::Event(Event::PlanFailed { term: 3, eval: EvalId(1), reason }, _) = failed else {
            panic!("the evaluation did not fail");
        };
        assert_eq!(reason, "the planner panicked: its message is withheld, as it may hold secrets");
        assert!(matches!(answers.recv(), Ok(EngineInput::Planned { plan, .. }) if plan.eval == EvalId(2)));
    }

    #[test]
    fn what_was_claimed_for_a_plan_that_is_not_handed_over_is_taken_back() {
        let mut thread = thread(Planner::plan);
        let plan = thread.planner.plan(&Store::default(), &eval(EvalId(1)), Timestamp(1), 1);
        let claim = || thread.claim(&plan, true).expect("nobody else claims");
        let holder = |ticket| thread.shared.claims.lock().holder(ticket);
        let claimed = claim();
        let ticket = claimed.ticket.expect("it is claimed");
        assert_eq!(holder(ticket), Some(ClaimHolder::Planner));
        drop(claimed);
        assert_eq!(holder(ticket), None);
        assert_eq!(holder(claim().hand_over()), Some(ClaimHolder::Planner));
    }
}

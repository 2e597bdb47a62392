//! The planner threads: each answers one evaluation after the other, on the state that readers see.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use berth_model::eval::Eval;
use berth_scheduler::{Claim, Plan, Planner, Ticket};
use crossbeam_channel::{Receiver, Sender};

use super::{
    Input, Shared,
    handle::random_u64,
    host_state::{HostState, Renew, Renewal},
};
use crate::{
    clock::now,
    state::{PlanTrace, View},
};

/// Evaluations handed out and not answered; the controller hands out fewer.
const EVALS_MAX: usize = 1 << 12;

/// How often a planner makes a plan anew because others have claimed what it takes.
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
}

/// The running threads; they end when the pool is dropped.
pub(crate) struct PlannerPool {
    /// One for each planner; where they share one, so many ways into it.
    queues: Vec<Sender<Arc<Eval>>>,
    next: usize,
}

impl PlannerPool {
    pub fn start(
        config: PlannersConfig,
        shared: &Arc<Shared>,
        inputs: &Sender<Input>,
    ) -> std::io::Result<Self> {
        let all = crossbeam_channel::bounded(EVALS_MAX);
        let mut queues = Vec::new();
        for number in 0..config.threads() {
            let own = || crossbeam_channel::bounded(EVALS_MAX);
            let (evals, todo) = if config.host_state.is_shared() { all.clone() } else { own() };
            queues.push(evals);
            let renewal = Renewal::new(config.host_state, config.host_state_refresh);
            let thread = PlannerThread {
                number: u16::try_from(number).unwrap_or(u16::MAX),
                shared: shared.clone(),
                planner: Planner::default(),
                host_state: config.host_state,
                renewal,
            };
            let inputs = inputs.clone();
            std::thread::Builder::new()
                .name(format!("planner-{number}"))
                .spawn(move || thread.run(&inputs, &todo))?;
        }
        Ok(Self { queues, next: 0 })
    }

    /// Has an evaluation planned.
    pub fn plan(&mut self, eval: Arc<Eval>) {
        self.next = (self.next + 1) % self.queues.len();
        // The controller never hands out as many as there is room for.
        let _ = self.queues[self.next].send(eval);
    }
}

struct PlannerThread {
    number: u16,
    shared: Arc<Shared>,
    planner: Planner,
    host_state: HostState,
    renewal: Renewal,
}

impl PlannerThread {
    fn run(mut self, inputs: &Sender<Input>, todo: &Receiver<Arc<Eval>>) {
        while let Ok(eval) = todo.recv() {
            if inputs.send(self.answer(&eval)).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, eval: &Eval) -> Input {
        let (begun_at, begun) = (now(), Instant::now());
        let mut overtaken = 0;
        let (plan, ticket) = loop {
            let view = self.renew(begun);
            let plan = self.planner.plan(&view.store, eval, begun_at, random_u64());
            // Costs as much as planning.
            debug_assert!(
                !self.host_state.is_shared() || berth_scheduler::check::check(&view.store, &plan).is_empty()
            );
            match self.claim(&plan, overtaken == OVERTAKEN_MAX) {
                Some(ticket) => break (plan, ticket),
                None => overtaken += 1,
            }
        };
        self.shared.counters.planned(&plan, overtaken);
        self.shared.counters.plan_time.record(begun.elapsed());
        let trace = PlanTrace::new(&plan, self.number, [begun_at, now()], overtaken);
        Input::Planned { plan: Box::new(plan), ticket, trace: Box::new(trace) }
    }

    /// Claims what a plan takes. None when others have claimed it meanwhile: then it is better made anew here and now than
    /// refused by the applier, unless it is the `last` one that is made here.
    fn claim(&self, plan: &Plan, last: bool) -> Option<Ticket> {
        let wanted: Vec<Claim> = plan.claims().collect();
        let mut claims = self.shared.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = claims.add(&plan.job.namespace, wanted);
        let may_be_overtaken = !last && self.host_state.is_shared();
        if may_be_overtaken && claims.overdraw(ticket, &self.shared.view.load().store) {
            claims.remove(ticket);
            return None;
        }
        Some(ticket)
    }

    /// Learns what is to be known before an evaluation is planned. State and claims are taken together: a plan is either in
    /// the state or among the claims, never in neither.
    fn renew(&mut self, at: Instant) -> Arc<View> {
        let claims = self.shared.claims.lock().unwrap_or_else(PoisonError::into_inner);
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

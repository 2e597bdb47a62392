//! The planner threads: each answers one evaluation after the other, on the state that readers see.

use std::{
    sync::{Arc, PoisonError},
    time::Instant,
};

use berth_controller::Event;
use berth_model::eval::Eval;
use berth_scheduler::Planner;
use crossbeam_channel::{Receiver, Sender};

use super::{Input, Shared, handle::random_u64};
use crate::clock::now;

/// Evaluations handed out and not answered; the controller hands out fewer.
const EVALS_MAX: usize = 1 << 12;

/// The running threads; they end when the pool is dropped.
pub(crate) struct PlannerPool {
    evals: Sender<Arc<Eval>>,
}

impl PlannerPool {
    pub fn start(count: usize, shared: &Arc<Shared>, inputs: &Sender<Input>) -> std::io::Result<Self> {
        let (evals, todo) = crossbeam_channel::bounded(EVALS_MAX);
        for number in 0..count.max(1) {
            let (shared, inputs, todo) = (shared.clone(), inputs.clone(), todo.clone());
            std::thread::Builder::new()
                .name(format!("planner-{number}"))
                .spawn(move || run(&shared, &inputs, &todo))?;
        }
        Ok(Self { evals })
    }

    /// Has an evaluation planned.
    pub fn plan(&self, eval: Arc<Eval>) {
        // The controller never hands out as many as there is room for.
        let _ = self.evals.send(eval);
    }
}

fn run(shared: &Shared, inputs: &Sender<Input>, todo: &Receiver<Arc<Eval>>) {
    let mut planner = Planner::default();
    while let Ok(eval) = todo.recv() {
        let begun = Instant::now();
        let view = {
            // State and claims are taken together: a plan is either in the state or among the claims, never in neither.
            let claims = shared.claims.lock().unwrap_or_else(PoisonError::into_inner);
            let view = shared.view.load_full();
            planner.follow(&view.store, &claims);
            view
        };
        let plan = planner.plan(&view.store, &eval, now(), random_u64());
        // Costs as much as planning.
        debug_assert_eq!(berth_scheduler::check::check(&view.store, &plan), []);
        shared.counters.planned(&plan);
        shared.counters.plan_time.record(begun.elapsed());
        let mut claims = shared.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = claims.add(planner.claims(&plan));
        claims.pledge(ticket, &plan.job.namespace, plan.pledge.clone());
        drop(claims);
        if inputs.send(Input::Event(Event::Planned { plan: Box::new(plan), ticket })).is_err() {
            return;
        }
    }
}

//! The thread that runs the controller: takes in all that has come, lets it decide once, and carries it out.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use berth_controller::{Config, Controller, Event};
use berth_model::AllocId;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::{
    Input, Shared,
    carry_out::CarryOut,
    planners::{PlannerPool, PlannersConfig},
    proposer::Proposals,
};
use crate::clock::now;

/// Time between two ticks.
const TICK: Duration = Duration::from_millis(250);
/// Things taken in before what comes of them is carried out.
const BATCH_MAX: usize = 4096;

/// Evaluations handed to each planner: while it plans one, others wait for it, so that it need not.
const PLANNING_PER_THREAD: usize = 64;

/// The running thread.
pub(crate) struct ControllerThread {
    inputs: Sender<Input>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the controller and its planners.
pub(crate) fn start(
    shared: Arc<Shared>,
    inputs: (Sender<Input>, Receiver<Input>),
    proposals: Proposals,
    planners: PlannersConfig,
) -> std::io::Result<ControllerThread> {
    let pool = PlannerPool::start(planners, &shared, &inputs.0)?;
    let planning_max = planners.threads() * PLANNING_PER_THREAD;
    let config = Config { planning_max, desired_hash, seed: super::handle::random_u64() };
    let carry_out = CarryOut::new(shared, pool, proposals);
    let receiver = inputs.1;
    let thread = std::thread::Builder::new()
        .name("controller".to_owned())
        .spawn(move || run(&receiver, Controller::new(config), carry_out))?;
    Ok(ControllerThread { inputs: inputs.0, thread: Some(thread) })
}

impl ControllerThread {
    /// Ends the thread once it has carried out what it was told.
    pub fn stop(mut self) {
        let _ = self.inputs.send(Input::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn desired_hash(alloc: AllocId, stop: bool) -> u128 {
    berth_api::agent::desired_hash(&alloc.to_bytes(), stop)
}

fn run(inputs: &Receiver<Input>, mut controller: Controller, mut carry_out: CarryOut) {
    let mut actions = Vec::new();
    let mut last_tick = now();
    loop {
        let mut next = match inputs.recv_timeout(TICK) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let now = now();
        for _ in 0..BATCH_MAX {
            let Some(input) = next.take() else { break };
            let Some(event) = carry_out.admit(input) else { return };
            controller.handle(event, now, &mut actions);
            next = inputs.try_recv().ok();
        }
        if let Some(Some(event)) = next.map(|input| carry_out.admit(input)) {
            controller.handle(event, now, &mut actions);
        }
        if now.since(last_tick) >= TICK {
            last_tick = now;
            controller.handle(Event::Tick, now, &mut actions);
        }
        controller.flush(&mut actions);
        actions.drain(..).for_each(|action| carry_out.action(action));
    }
}

//! The controller thread: collects pending inputs, has the controller decide once, and executes its actions.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use berth_controller::{Controller, ControllerConfig, Event, ServerId};
use berth_model::{AllocId, panic_text};
use tokio::sync::watch;

use super::{
    EngineInput, EngineShared, Receivers, Senders,
    executor::ActionExecutor,
    planners::{PlannerPool, PlannersConfig},
    proposer::Proposals,
};
use crate::{clock::Clocks, cluster::Relay};

/// Time between two ticks.
const TICK: Duration = Duration::from_millis(250);
/// Time between two attempts to return unused memory.
const EASE_EVERY: Duration = Duration::from_secs(5);
/// Inputs handled before the actions that follow from them are executed.
const BATCH_MAX: usize = 4096;

/// The running thread.
pub(crate) struct ControllerThread {
    /// Kept here so that neither queue of the controller closes while it runs.
    senders: Senders,
    thread: Option<JoinHandle<()>>,
}

/// Starts the controller of a server and its planners; what it sends to others goes to `relay`.
pub(crate) fn start(
    shared: Arc<EngineShared>,
    (senders, receivers): (Senders, Receivers),
    proposals: Proposals,
    planners: PlannersConfig,
    server: ServerId,
    relay: Arc<Relay>,
) -> std::io::Result<ControllerThread> {
    let pool = PlannerPool::start(planners, &shared, &senders.inputs)?;
    let planning_max = planners.planning_max();
    let config = ControllerConfig { server, planning_max, desired_hash, seed: super::handle::random_u64() };
    let executor = ActionExecutor::new(shared.clone(), pool, proposals, relay);
    let controller = Controller::new(config, shared.claims.clone());
    let thread = std::thread::Builder::new().name("controller".to_owned()).spawn(move || {
        ending_with(&shared.failure, || run(receivers, controller, executor));
    })?;
    Ok(ControllerThread { senders, thread: Some(thread) })
}

impl ControllerThread {
    /// Ends the thread once the inputs before this one are handled.
    pub fn stop(mut self) {
        let _ = self.senders.inputs.send(EngineInput::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn desired_hash(alloc: AllocId, revision: Option<u64>) -> u128 {
    berth_api::agent::desired_hash(&alloc.to_bytes(), revision)
}

/// Runs the controller. After a panic nothing that it has in memory can be relied on: the server ends with the reason, and the next
/// start recovers from the log.
fn ending_with(failure: &watch::Sender<Option<String>>, run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let reason = format!("internal error: the controller panicked: {}", panic_text(&*panic));
        failure.send_replace(Some(reason));
    }
}

fn run(mut inputs: Receivers, mut controller: Controller, mut executor: ActionExecutor) {
    let clocks = Clocks::default();
    let mut actions = Vec::new();
    let mut last_tick = clocks.now().monotonic;
    let mut last_eased = last_tick;
    let mut has_more = false;
    loop {
        let wait = if has_more { Duration::ZERO } else { TICK };
        let Ok(mut next) = inputs.next_within(wait) else { return };
        let now = clocks.now();
        for _ in 0..BATCH_MAX {
            let Some(input) = next.take() else { break };
            // What the input holds of the budget for incoming frames is given back once it has been dealt with.
            let Some((event, _share)) = executor.accept(input) else { return };
            controller.handle(event, now, &mut actions);
            next = inputs.next();
        }
        if let Some(input) = next {
            let Some((event, _share)) = executor.accept(input) else { return };
            controller.handle(event, now, &mut actions);
        }
        if now.monotonic.saturating_sub(last_tick) >= TICK {
            last_tick = now.monotonic;
            controller.handle(Event::Tick, now, &mut actions);
        }
        has_more = controller.flush(&executor, &mut actions);
        actions.drain(..).for_each(|action| executor.action(action));
        if now.monotonic.saturating_sub(last_eased) >= EASE_EVERY {
            last_eased = now.monotonic;
            executor.ease();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_panics_ends_the_server_with_its_message() {
        let failure = watch::Sender::new(None);
        ending_with(&failure, || {});
        assert_eq!(*failure.borrow(), None);
        ending_with(&failure, || panic!("planted"));
        let message = failure.borrow().clone();
        assert_eq!(message.as_deref(), Some("internal error: the controller panicked: planted"));
    }
}

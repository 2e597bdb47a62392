//! The engine: the threads that carry out what the controller decides.
//!
//! One thread runs the controller, some run planners, the log writes on its own tasks. They communicate through bounded
//! channels, and share only the claims of planners and the view that readers see.

mod controller_thread;
mod counters;
mod executor;
mod handle;
mod host_state;
mod inputs;
mod log_metrics;
mod log_observer;
mod operator_log;
mod plan_traces;
mod planners;
mod proposer;
mod state_metrics;
mod wake;

use std::sync::Arc;

use arc_swap::ArcSwap;
use berth_api::agent::Down;
use berth_controller::{Event, Hello, ProposalOutcome, SessionId};
use berth_model::{Index, NodeId, command::EncodedCommands};
use berth_scheduler::{Ledger, Plan, Ticket};
use tokio::sync::{oneshot, watch};

use crate::{
    EventHub, Watchers,
    agents::{BudgetShare, ConnectionClosed, Outbound, Registry, SessionRequests, frame},
    shared::{PlanTrace, View},
};

pub(crate) use controller_thread::{ControllerThread, start};
pub(crate) use counters::EngineCounters;
pub(crate) use handle::{EngineHandle, random_u64};
pub use host_state::HostState;
pub(crate) use inputs::{INPUTS_MAX, Receivers, Senders, inputs};
pub(crate) use log_observer::LogObserver;
pub(crate) use plan_traces::PlanTraces;
pub use planners::PlannersConfig;
pub(crate) use proposer::{Proposals, run as propose};
#[cfg(test)]
pub(crate) use state_metrics::of_state;
#[cfg(test)]
pub(crate) use wake::keys as woken_by;

/// What the threads share.
pub(crate) struct EngineShared {
    pub view: Arc<ArcSwap<View>>,
    /// The index of the view, and the id of its cluster: 0 until there is one.
    pub published: watch::Sender<(Index, u128)>,
    pub watchers: Arc<Watchers>,
    pub events: Arc<EventHub>,
    /// What planners and the controller claim of nodes.
    pub claims: Ledger,
    pub registry: Arc<Registry>,
    pub counters: EngineCounters,
    pub plans: PlanTraces,
    /// Why the server cannot go on.
    pub failure: watch::Sender<Option<String>>,
}

impl EngineShared {
    pub fn new(failure: watch::Sender<Option<String>>) -> Self {
        Self {
            view: Arc::new(ArcSwap::from_pointee(View::default())),
            published: watch::Sender::new((Index::default(), 0)),
            watchers: Arc::default(),
            events: Arc::default(),
            claims: Ledger::default(),
            registry: Arc::default(),
            counters: EngineCounters::default(),
            plans: PlanTraces::default(),
            failure,
        }
    }
}

/// What the controller thread is sent.
pub(crate) enum EngineInput {
    /// Something happened; with the share of the budget for incoming frames that it holds until it is dealt with.
    Event(Event, BudgetShare),
    /// A proposed change.
    Request { commands: EncodedCommands, reply: oneshot::Sender<ProposalOutcome> },
    /// A planner has answered an evaluation.
    Planned { term: u64, plan: Box<Plan>, ticket: Ticket, trace: Box<PlanTrace> },
    /// An agent opened a session; what it is sent goes to `link`. With the share of its hello.
    Open { session: SessionId, hello: Box<Hello>, link: Box<SessionLink>, share: BudgetShare },
    /// Ends the thread.
    Stop,
}

impl EngineInput {
    /// An event that holds nothing of the frame budget.
    pub fn event(event: Event) -> Self {
        Self::Event(event, BudgetShare::default())
    }
}

/// Where a session's messages go.
#[derive(Clone)]
pub(crate) struct SessionLink {
    pub node: NodeId,
    /// The connection's number for the session.
    pub number: u32,
    pub outbound: Outbound,
    pub pending: SessionRequests,
}

impl SessionLink {
    /// Sends a message once there is a place for it.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn send(&self, message: Down) -> Result<(), ConnectionClosed> {
        self.outbound.send(frame(self.number, message)).await
    }
}

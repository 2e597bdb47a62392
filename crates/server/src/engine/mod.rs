//! The engine: the threads that carry out what the controller decides.
//!
//! One thread runs the controller, some run planners, the log writes on its own tasks. They speak through bounded
//! channels, and share only the claims of planners and the view that readers see.

mod carry_out;
mod controller_thread;
mod counters;
mod handle;
mod host_state;
mod plan_traces;
mod planners;
mod proposer;
mod wake;

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use berth_model::NodeId;
use berth_scheduler::{Claims, Plan, Ticket};
use tokio::sync::{mpsc, oneshot};

use crate::{
    EventHub, Watchers,
    agents::{Outgoing, Pending, Registry},
    state::{PlanTrace, View},
};

pub(crate) use controller_thread::{ControllerThread, start};
pub(crate) use counters::Counters;
pub(crate) use handle::EngineHandle;
pub use host_state::HostState;
pub(crate) use plan_traces::PlanTraces;
pub use planners::PlannersConfig;
pub(crate) use proposer::{Proposals, run as propose};

/// Things told to the controller that may wait.
pub(crate) const INPUTS_MAX: usize = 1 << 16;

/// What the threads share.
pub(crate) struct Shared {
    pub view: Arc<ArcSwap<View>>,
    pub watchers: Arc<Watchers>,
    pub events: Arc<EventHub>,
    pub claims: Mutex<Claims>,
    pub registry: Arc<Registry>,
    pub counters: Counters,
    pub plans: PlanTraces,
}

/// What the controller thread is told.
pub(crate) enum Input {
    /// Something happened.
    Event(berth_controller::Event),
    /// Somebody wishes a change.
    Request {
        commands: Vec<berth_model::command::Command>,
        bytes: usize,
        reply: oneshot::Sender<berth_controller::Answer>,
    },
    /// A planner has answered an evaluation.
    Planned { plan: Box<Plan>, ticket: Ticket, trace: Box<PlanTrace> },
    /// An agent opened a session; what it is told goes to `link`.
    Open { session: berth_controller::SessionId, hello: Box<berth_controller::Hello>, link: Link },
    /// No more.
    Stop,
}

/// Where a session's messages go.
#[derive(Clone)]
pub(crate) struct Link {
    pub node: NodeId,
    /// The connection's number for the session.
    pub number: u32,
    pub outgoing: mpsc::Sender<(u32, Outgoing)>,
    pub pending: Pending,
}

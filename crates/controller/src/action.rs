//! What the controller wants done.

use std::sync::Arc;

use berth_model::{
    AllocId, Index, NodeId, Timestamp,
    alloc::StopReason,
    command::{EncodedEntry, Outcome},
    eval::Eval,
    event::StateChange,
    observed::Observed,
    store::{AllocSlot, Store},
};
use berth_scheduler::Ticket;

use crate::{
    SessionId,
    applier::RefusedPlacements,
    event::{RequestToken, WelcomeMode},
    messages::{NodeRecovery, ServerId, ServerMessage},
};

/// An evaluation that a planner is to answer.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// The leadership that asks.
    pub term: u64,
    /// The evaluation to plan.
    pub eval: Arc<Eval>,
    /// The time by which it was handed out: the leader's own, which never goes back. By a clock that was put back, what is
    /// due would not be, and its plan would ask for the same again, and again.
    pub now: Timestamp,
    /// Until when nodes have the time to come back: see [`berth_scheduler::Planner::await_nodes`].
    pub awaited_until: Timestamp,
}

/// One thing to do.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "actions are moved once, from one vector to whoever carries them out"
)]
pub enum Action {
    /// Write an entry; entries are handed over in the order of their indexes. Each ends applied, not written or unknown.
    Propose {
        /// The leadership that made it, in which alone it may be written.
        term: u64,
        /// The entry, encoded.
        entry: EncodedEntry,
    },
    /// The applier's verdict on a plan; once for each.
    Judged {
        /// The planner's claims.
        ticket: Ticket,
        /// Placements that are committed.
        committed: usize,
        /// Placements that are not.
        refused: RefusedPlacements,
    },
    /// Have a planner answer this, on a state not older than the one last published, which holds all that was applied.
    Plan(PlanRequest),
    /// Let readers see a new state.
    Publish {
        /// The replicated state.
        store: Store,
        /// What agents observe.
        observed: Observed,
        /// Up to where changes of either are in it.
        index: Index,
        /// Logged changes, by index.
        logged: Vec<(Index, Vec<StateChange>)>,
        /// Observed changes, by index.
        seen: Vec<(Index, Vec<(AllocSlot, AllocId)>)>,
        /// How far the leader knows the nodes.
        recovery: Arc<NodeRecovery>,
        /// Nothing is known of what lies between this and what was published before.
        is_anew: bool,
    },
    /// Tell whoever asked for a change what came of it, once what was published before can be read.
    Answer(RequestToken, ProposalOutcome),
    /// Tell an agent something.
    Send(SessionId, NodeMessage),
    /// Close a session.
    Close(SessionId),
    /// Tell another server something. It may be lost: whoever misses it asks again.
    Tell(ServerId, ServerMessage),
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalOutcome {
    /// It is in the log at this index; one outcome for each command.
    Committed(Index, Vec<Outcome>),
    /// Too much waits to be written.
    Busy(usize),
    /// It has this many bytes, more than an entry can hold.
    TooLarge(usize),
    /// This server does not lead.
    NoLeader,
    /// A server of the cluster could not apply it: which.
    TooNew(String),
    /// It is not in the log and never will be; why.
    NotWritten(String),
    /// It may be in the log; why nobody knows.
    Unknown(String),
}

/// What an agent is sent.
#[derive(Debug, Clone)]
pub enum NodeMessage {
    /// The session is open.
    Welcome {
        /// The cluster that the node belongs to from now on.
        cluster: u128,
        /// The state was restored from the cluster that the agent named.
        restored: bool,
        /// Which observed state the agent is to report.
        mode: WelcomeMode,
        /// Milliseconds between heartbeats.
        heartbeat_ms: u64,
    },
    /// The session is not, or no longer, open.
    Refused {
        /// The reason, in words.
        reason: String,
        /// Whether trying again can help.
        retry: bool,
    },
    /// What the node should do.
    Desired(Box<DesiredState>),
    /// How often the agent is to give a sign of life from now on.
    HeartbeatEvery {
        /// Milliseconds between heartbeats.
        heartbeat_ms: u64,
    },
    /// An update or a heartbeat has been taken in.
    Ack {
        /// Sequence number of the report.
        seq: u64,
        /// How long changes that are not urgent should wait for company on the node: milliseconds.
        delay_ms: u64,
    },
}

/// Desired state of a node, all of it or what has changed.
#[derive(Debug, Clone)]
pub struct DesiredState {
    /// The node.
    pub node: NodeId,
    /// Term of the leader.
    pub term: u64,
    /// The state that it was made from: slots are of this one, and of no other.
    pub store: Arc<Store>,
    /// Counts the session's messages of desired state, from 1.
    pub seq: u64,
    /// Replaces all that was said before.
    pub full: bool,
    /// Allocations that should run.
    pub run: Vec<AllocSlot>,
    /// Allocations that should end, and why.
    pub stop: Vec<(AllocId, StopReason)>,
    /// Their end is in the log.
    pub forget: Vec<AllocId>,
    /// Nobody will ask for their files any more.
    pub purge: Vec<AllocId>,
}

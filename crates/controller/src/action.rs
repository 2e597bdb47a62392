//! What the controller wants done.

use std::sync::Arc;

use berth_model::{
    AllocId, Index,
    alloc::StopReason,
    command::{Entry, Outcome},
    eval::Eval,
    event::Event as Change,
    observed::Observed,
    store::{AllocSlot, Store},
};
use berth_scheduler::Ticket;

use crate::{
    SessionId,
    applier::Refused,
    event::{Token, WelcomeMode},
};

/// One thing to do.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "actions are moved once, from one vector to whoever carries them out"
)]
pub enum Action {
    /// Write an entry; entries are handed over in the order of their indexes.
    Propose {
        /// To be written.
        entry: Entry,
        /// Claims of planners that a state at the entry's index shows.
        planned: Vec<Ticket>,
    },
    /// Claims of a plan that came to nothing.
    Unclaim(Ticket),
    /// What the applier says of a plan; once for each.
    Judged {
        /// The planner's claims.
        ticket: Ticket,
        /// Placements that passed.
        committed: usize,
        /// Placements that did not.
        refused: Refused,
    },
    /// Have a planner answer this, on a state not older than the one last published.
    Plan(Arc<Eval>),
    /// Let readers see a new state.
    Publish {
        /// The replicated state.
        store: Store,
        /// What agents observe.
        observed: Observed,
        /// Up to where changes of either are in it.
        index: Index,
        /// Logged changes, by index.
        logged: Vec<(Index, Vec<Change>)>,
        /// Observed changes, by index.
        seen: Vec<(Index, Vec<(AllocSlot, AllocId)>)>,
        /// Nodes that are wanted and have not confirmed what runs on them.
        unconfirmed_nodes: usize,
    },
    /// Tell whoever asked for a change what came of it, once what was published before can be read.
    Answer(Token, Answer),
    /// Tell an agent something.
    Send(SessionId, ToNode),
    /// Close a session.
    Close(SessionId),
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is in the log at this index; one outcome for each command.
    Committed(Index, Vec<Outcome>),
    /// Too much waits to be written.
    Busy(usize),
    /// The log refused it.
    NotWritten(String),
}

/// What an agent is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToNode {
    /// The session is open.
    Welcome {
        /// What to tell.
        mode: WelcomeMode,
        /// Milliseconds between heartbeats.
        heartbeat_ms: u64,
    },
    /// The session is not, or no longer, open.
    Refused {
        /// For people.
        reason: String,
        /// Whether trying again can help.
        retry: bool,
    },
    /// What the node should do.
    Desired {
        /// Of the leader.
        term: u64,
        /// As of which state.
        index: Index,
        /// Replaces all that was said before.
        full: bool,
        /// Should run.
        run: Vec<AllocSlot>,
        /// Should end.
        stop: Vec<(AllocId, StopReason)>,
        /// Their end is in the log.
        forget: Vec<AllocId>,
        /// Nobody will ask for their files any more.
        purge: Vec<AllocId>,
    },
    /// How often the agent is to give a sign of life from now on.
    HeartbeatEvery {
        /// Milliseconds.
        heartbeat_ms: u64,
    },
    /// An update has been taken in.
    Ack {
        /// The update's seq.
        seq: u64,
    },
}

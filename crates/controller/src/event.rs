//! What the controller is told.

use std::sync::Arc;

use berth_model::{
    Index, NodeId, command::Command, event::Applied, node::Node, observed::ObservedAlloc, store::Store,
};
use berth_scheduler::{Plan, Ticket};

/// Names an open node session; chosen by the shell, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Names a request that waits for its answer; chosen by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// This server leads from now on; `store` holds all that was committed before.
    Leads {
        /// Of its leadership.
        term: u64,
        /// The state to begin with.
        store: Box<Store>,
    },
    /// Somebody wishes a change.
    Requested(Request),
    /// Entries have been applied.
    Applied {
        /// The state after the last of them.
        store: Box<Store>,
        /// In order.
        applied: Vec<Applied>,
    },
    /// An entry was refused by the log, and is not in it.
    NotWritten {
        /// The entry's index.
        index: Index,
        /// Why.
        reason: String,
    },
    /// A planner has answered.
    Planned {
        /// Its answer.
        plan: Box<Plan>,
        /// Its claims.
        ticket: Ticket,
    },
    /// An agent opened a session.
    SessionOpened(SessionId, Box<Hello>),
    /// An agent told what it observed.
    Observed {
        /// Which session.
        session: SessionId,
        /// Of the agent's last change.
        seq: u64,
        /// The latest of each allocation.
        allocs: Vec<Arc<ObservedAlloc>>,
        /// All that a welcome asked for has been told.
        resync_done: bool,
    },
    /// An agent lives.
    Heartbeat(SessionId),
    /// A session's connection is gone.
    SessionClosed(SessionId),
    /// Time has passed.
    Tick,
}

/// A wished change.
#[derive(Debug)]
pub struct Request {
    /// Who waits for it.
    pub token: Token,
    /// Become part of one entry, in order.
    pub commands: Vec<Command>,
    /// Their encoded size, at least.
    pub bytes: usize,
}

/// Which observed state an agent is to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WelcomeMode {
    /// None: both sides hold the same.
    Equal,
    /// What changed after this.
    FromSeq(u64),
    /// All.
    Full,
}

/// How an agent introduces itself.
#[derive(Debug, Clone)]
pub struct Hello {
    /// What the node is; holds the hash of its secret.
    pub node: Node,
    /// Grows with each start of the agent.
    pub epoch: u64,
    /// Of its last observed change.
    pub seq: u64,
    /// Of the wishes it holds.
    pub desired_digest: u128,
    /// Of the observed state it holds.
    pub observed_digest: u128,
}

impl Hello {
    /// Whose agent it is.
    pub fn node_id(&self) -> NodeId {
        self.node.id
    }
}

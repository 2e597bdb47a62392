//! What the controller is sent.

use std::sync::Arc;

use berth_model::{
    EvalId, Index, NodeId,
    command::{ENTRY_VERSION, EncodedCommands},
    event::AppliedEntry,
    node::Node,
    observed::ObservedAlloc,
    store::Store,
};
use berth_scheduler::{Plan, Ticket};

use crate::{
    checkpoint::NodeCheckpoint,
    messages::{ServerId, ServerMessage},
};

/// Names an open node session; chosen by the shell, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Names a request that waits for its answer; chosen by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u64);

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// The log has been read: this is all that was committed before. Comes first, and again when a snapshot of another
    /// server replaces the state, of whose entries this one was not informed.
    Recovered {
        /// Of the last entry in it.
        term: u64,
        /// The state.
        store: Box<Store>,
    },
    /// What entries all servers of the cluster can apply. Nothing else is written, but what the log holds already.
    Versions(EntryVersions),
    /// Whether who leads, this server or the one that it follows, has heard a majority lately: where none is heard nobody
    /// learns that another leads.
    Majority {
        /// It has, or does not say.
        heard: bool,
    },
    /// Another server, asked how it is, has answered that it leads and hears a majority.
    LeaderAnswered {
        /// Term of the leadership.
        term: u64,
        /// The server.
        leader: ServerId,
    },
    /// This server leads from now on.
    LeadershipGained {
        /// Term of the leadership.
        term: u64,
    },
    /// This server leads no more, or whoever led is not known to lead any more.
    LeadershipLost,
    /// Another server leads from now on.
    Follows {
        /// Term of the leadership.
        term: u64,
        /// The server.
        leader: ServerId,
    },
    /// Another server says something.
    Message(ServerId, Box<ServerMessage>),
    /// The queue to another server, which was full, has space again.
    ServersCanReceive,
    /// Somebody asks for a change.
    Requested(Request),
    /// Entries have been applied.
    Applied {
        /// Of the leader that wrote the last of them.
        term: u64,
        /// The state after the last of them.
        store: Box<Store>,
        /// In the order of their indexes.
        applied: Vec<AppliedEntry>,
    },
    /// An entry was proposed and not applied.
    NotApplied {
        /// The leadership that proposed it.
        term: u64,
        /// The entry's index.
        index: Index,
        /// What is known of it.
        fate: EntryFailure,
    },
    /// A planner has answered.
    Planned {
        /// The leadership in which it was asked.
        term: u64,
        /// The plan.
        plan: Box<Plan>,
        /// The planner's claims.
        ticket: Ticket,
    },
    /// A planner has failed on an evaluation, and would again.
    PlanFailed {
        /// The leadership in which it was asked.
        term: u64,
        /// The evaluation.
        eval: EvalId,
        /// The reason, in words.
        reason: String,
    },
    /// An agent opened a session.
    SessionOpened(SessionId, Box<Hello>),
    /// An agent's node is another than its session said so far. Without the hash of its secret, which the session knows.
    NodeChanged(SessionId, Box<Node>),
    /// An agent reported what it observed.
    Observed {
        /// The session that reports.
        session: SessionId,
        /// Of the agent's last change.
        seq: u64,
        /// The last message of desired state that it has taken in.
        desired_seq: u64,
        /// The latest of each allocation.
        allocs: Vec<Arc<ObservedAlloc>>,
        /// All that a welcome asked for has been reported.
        resync_done: bool,
    },
    /// A heartbeat of an agent.
    Heartbeat(SessionId, Heartbeat),
    /// A session's connection is gone.
    SessionClosed(SessionId),
    /// Time has passed.
    Tick,
}

/// What entries all servers of the cluster can apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryVersions {
    /// The newest version of entries that all of them know.
    pub entries: u8,
    /// Who knows no newer ones: for users.
    pub held_by: String,
}

impl Default for EntryVersions {
    /// A server that was informed of no others.
    fn default() -> Self {
        Self { entries: ENTRY_VERSION, held_by: String::new() }
    }
}

/// What became of an entry that was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryFailure {
    /// It is not in the log and never will be; why.
    NotWritten(String),
    /// It may be in the log and may still be applied; why nobody knows.
    Unknown(String),
}

/// A change that somebody asks for.
#[derive(Debug)]
pub struct Request {
    /// Who waits for it.
    pub token: RequestToken,
    /// Become part of one entry, in order.
    pub commands: EncodedCommands,
}

/// Which observed state an agent is to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WelcomeMode {
    /// None: both sides hold the same.
    Equal,
    /// What changed after this.
    FromSeq(u64),
    /// The whole observed state.
    Full,
}

/// How an agent introduces itself.
#[derive(Debug, Clone)]
pub struct Hello {
    /// What the node is; holds the hash of its secret.
    pub node: Node,
    /// The cluster that it belongs to; 0 for none yet.
    pub cluster: u128,
    /// Grows with each start of the agent.
    pub epoch: u64,
    /// Drawn at each start of the agent: distinguishes two agents of one node. 0 where it is not said.
    pub instance: u128,
    /// Counts its connections since then, so that the newest wins; 0 where it is not said.
    pub dial: u64,
    /// The position of the desired state that it took in last; 0 where it is not said.
    pub index: Index,
    /// Of its last observed change.
    pub seq: u64,
    /// Of the desired state it holds.
    pub desired_digest: u128,
    /// Of the observed state it holds.
    pub observed_digest: u128,
    /// What this server had recorded of it before it was started again, if its disk has kept that. It counts for nothing unless it
    /// agrees with what the agent says.
    pub checkpoint: Option<Box<NodeCheckpoint>>,
}

impl Hello {
    /// Whose agent it is.
    pub fn node_id(&self) -> NodeId {
        self.node.id
    }
}

/// A sign of life, with what the agent holds: a difference that was lost shows here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heartbeat {
    /// Of its last observed change.
    pub seq: u64,
    /// The last message of desired state that it has taken in.
    pub desired_seq: u64,
    /// Of the desired state it holds.
    pub desired_digest: u128,
    /// Of the observed state it holds.
    pub observed_digest: u128,
}

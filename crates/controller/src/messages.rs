//! What servers say to each other about agents: up from every replica to the leader, down from the leader to every
//! replica. Plain data, so that the leader's own replica and those of other servers take the same path, and a simulation
//! can carry them.
//!
//! A replica attaches to a leader with a number of its own choice; every frame names it, and counts. Whoever misses a
//! frame, or gets one of another attachment, begins again: both sides then compare digests and send only differences, so
//! that neither the order nor the loss of connections matters.

mod codec;

use std::sync::{Arc, OnceLock};

use berth_model::{
    AllocId, Index, NodeId, Timestamp,
    node::Node,
    observed::ObservedAlloc,
    store::{AllocSlot, Store},
};
use minicbor::{Decode, Encode};

use crate::event::SessionId;
pub use codec::{MESSAGE_VERSION, MessageError};

/// Bytes of what a frame holds, about; a single observation may be larger, within what an agent may send.
pub(crate) const FRAME_BYTES: usize = 512 << 10;
/// Frames said to one server before others get their turn.
pub(crate) const FRAMES_MAX: usize = 16;

/// A server, as the members of the replicated log are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServerId(pub u64);

/// A message between two servers.
#[derive(Debug, Clone)]
pub enum ServerMessage {
    /// To the leader.
    Up(UpFrame),
    /// From the leader.
    Down(DownFrame),
}

impl ServerMessage {
    /// About how many bytes it takes when it is encoded.
    pub fn bytes(&self) -> usize {
        let of_messages: usize = match self {
            Self::Up(frame) => frame.messages.iter().map(UpMessage::bytes).sum(),
            Self::Down(frame) => frame.messages.iter().map(DownMessage::bytes).sum(),
        };
        32 + of_messages
    }
}

/// From a replica to the leader.
#[derive(Debug, Clone, Encode, Decode)]
pub struct UpFrame {
    /// Of the leadership that it is for.
    #[n(0)]
    pub term: u64,
    /// Which of the replica's attachments; drawn again for each.
    #[n(1)]
    pub attachment: u64,
    /// Counts the attachment's frames from 1.
    #[n(2)]
    pub number: u64,
    /// What the replica had applied when it said so: the leader listens once it has applied as much.
    #[n(3)]
    pub as_of: Index,
    /// Messages, in the order in which they are applied.
    #[n(4)]
    pub messages: Vec<UpMessage>,
}

/// From the leader to a replica.
#[derive(Debug, Clone, Encode, Decode)]
pub struct DownFrame {
    /// Term of the leadership.
    #[n(0)]
    pub term: u64,
    /// Which of the replica's attachments it answers.
    #[n(1)]
    pub attachment: u64,
    /// Counts the attachment's frames from 1; 0 asks for another attachment: frames were lost.
    #[n(2)]
    pub number: u64,
    /// Messages, in the order in which they are applied.
    #[n(3)]
    pub messages: Vec<DownMessage>,
}

/// What a replica says.
#[derive(Debug, Clone, Encode, Decode)]
pub enum UpMessage {
    /// What it has recorded, by node: those up to the last one that it names, and of no other.
    #[n(0)]
    Recorded(#[n(0)] Vec<RecordedNode>, #[n(1)] Continuation),
    /// An agent's session begins, goes on or has ended.
    #[n(1)]
    Session(#[n(0)] Box<SessionState>),
    /// These nodes' agents gave a sign of life. Nobody vouches for them: each spoke for itself.
    #[n(2)]
    SignsOfLife(#[n(0)] Vec<NodeId>),
    /// What was observed on a node.
    #[n(3)]
    Report(#[cbor(n(0), with = "berth_model::codec::shared")] Arc<NodeReport>),
}

impl UpMessage {
    /// About how many bytes it takes when it is encoded.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Recorded(nodes, _) => 64 * nodes.len(),
            Self::Session(state) => {
                128 + state.introduces.as_ref().map_or(0, |node| 256 + 64 * node.attributes.len())
            }
            Self::SignsOfLife(nodes) => 17 * nodes.len(),
            Self::Report(report) => report.bytes(),
        }
    }
}

/// Whether more of a list follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Continuation {
    /// This was the last part of the list.
    #[n(0)]
    None,
    /// Another part follows.
    #[n(1)]
    Follows,
}

/// What the leader says.
#[derive(Debug, Clone)]
pub enum DownMessage {
    /// Its leadership began at this index, above all that were ever published before, and after that entry.
    LeadershipBegan(Index, Index),
    /// Observed changes have their position in the one order of changes, and are recorded.
    Batch(Arc<ObservationBatch>),
    /// All observed changes up to this index have been sent; and how far the leader knows the nodes.
    UpTo(Index, NodeRecovery),
    /// A session is not to go on.
    EndSession(EndSession),
    /// Everything that the replica knows of a node is to be reported: it knows more than the leader.
    ReportNode(NodeId),
}

impl DownMessage {
    /// About how many bytes it takes when it is encoded.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Batch(batch) => 32 + batch.bytes(),
            Self::UpTo(_, recovery) => 64 + 17 * recovery.held_nodes.len(),
            Self::EndSession(end) => 64 + end.reason.len(),
            Self::LeadershipBegan(..) | Self::ReportNode(_) => 32,
        }
    }
}

/// Nodes that are named of those that are held.
pub(crate) const HELD_TOLD_MAX: usize = 32;

/// How far a leader knows the nodes: it waits for those of which it has not heard, and does not trust another leader on
/// what runs on them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRecovery {
    /// Nodes that are up and have not confirmed what runs on them.
    pub unconfirmed: u64,
    /// Nodes that were up when the leadership began, and have not been heard since.
    pub unheard: u64,
    /// None of those is lost before this time.
    pub grace_until: Timestamp,
    /// Nodes that have been silent for too long and are not declared lost, since too many are silent at once.
    pub held: u64,
    /// The first of them.
    pub held_nodes: Vec<NodeId>,
}

impl NodeRecovery {
    /// What servers of earlier versions say and read of it.
    pub fn of(unconfirmed: u64) -> Self {
        Self { unconfirmed, ..Self::default() }
    }
}

/// How far the reports of a node's agent have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct ReportVersion {
    /// Of the agent's start.
    #[n(0)]
    pub epoch: u64,
    /// Of its last change that is in.
    #[n(1)]
    pub seq: u64,
    /// It has reported all that runs there, and nothing runs that should not.
    #[n(2)]
    pub confirmed: bool,
}

impl ReportVersion {
    /// Whether this is of a later change than the other.
    pub fn is_after(&self, other: &Self) -> bool {
        (self.epoch, self.seq) > (other.epoch, other.seq)
    }
}

/// What a replica has recorded of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RecordedNode {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// How far its reports are recorded.
    #[n(1)]
    pub version: ReportVersion,
    /// The sum of the hashes of what was observed of its allocations that have not ended.
    #[n(2)]
    #[cbor(with = "berth_model::codec::wide")]
    pub digest: u128,
}

/// A session of a node's agent.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct SessionState {
    /// Which session of the replica.
    #[n(0)]
    #[cbor(with = "codec::session")]
    pub session: SessionId,
    /// The node.
    #[n(1)]
    pub node: NodeId,
    /// Of the agent's start; the newest wins.
    #[n(2)]
    pub epoch: u64,
    /// Drawn at the agent's start.
    #[n(3)]
    #[cbor(with = "berth_model::codec::wide")]
    pub instance: u128,
    /// Counts the connections of that start; the newest wins. 0 when the agent does not say.
    #[n(4)]
    pub dial: u64,
    /// Whether it still is.
    #[n(5)]
    pub is_open: bool,
    /// It begins: the agent has just spoken.
    #[n(6)]
    pub is_new: bool,
    /// All that it has reported has been recorded, and nothing is missing.
    #[n(7)]
    pub confirmed: bool,
    /// The node, where the replica's state has none such.
    #[n(8)]
    pub introduces: Option<Box<Node>>,
}

/// What was observed on a node, or a part of it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct NodeReport {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// The session that it was said in; none when a replica reports what it had recorded.
    #[n(1)]
    #[cbor(with = "codec::session_option")]
    pub session: Option<SessionId>,
    /// With the last part: what the node's agent has reported by then.
    #[n(2)]
    pub version: Option<ReportVersion>,
    /// The latest of each.
    #[n(3)]
    pub seen: Vec<ReportedAlloc>,
}

/// What was observed of an allocation.
#[derive(Debug, Clone, PartialEq, Encode)]
pub struct ReportedAlloc {
    /// Where the allocation stood in the sender's state: looked at first, and right nearly always.
    #[n(0)]
    #[cbor(with = "codec::slot")]
    pub slot: AllocSlot,
    /// The allocation.
    #[n(1)]
    #[cbor(encode_with = "berth_model::codec::shared::encode")]
    pub alloc: Arc<ObservedAlloc>,
    /// Counted once: it is asked at each step of its way.
    #[cbor(skip)]
    bytes: usize,
}

/// A session is not to go on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EndSession {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// The session to end.
    #[n(1)]
    #[cbor(with = "codec::session")]
    pub session: SessionId,
    /// The reason, in words.
    #[n(2)]
    pub reason: String,
    /// Whether trying again can help.
    #[n(3)]
    pub retry: bool,
}

/// Observed changes that have one index. Counted and encoded once, however many servers get them.
#[derive(Debug)]
pub struct ObservationBatch {
    /// Their position in the one order of changes.
    pub index: Index,
    /// The last entry before them: they are published once it has been applied.
    pub after: Index,
    /// In the order in which they were received.
    pub reports: Vec<Arc<NodeReport>>,
    bytes: OnceLock<usize>,
    encoded: OnceLock<Vec<u8>>,
}

impl ObservationBatch {
    /// Changes that stand at `index`, behind the entry at `after`.
    pub fn new(index: Index, after: Index, reports: Vec<Arc<NodeReport>>) -> Self {
        Self { index, after, reports, bytes: OnceLock::new(), encoded: OnceLock::new() }
    }

    /// About how many bytes its reports take when they are encoded.
    pub(crate) fn bytes(&self) -> usize {
        *self.bytes.get_or_init(|| self.reports.iter().map(|report| report.bytes()).sum())
    }
}

impl ReportedAlloc {
    /// What was observed of the allocation of a slot.
    pub fn new(slot: AllocSlot, alloc: Arc<ObservedAlloc>) -> Self {
        let bytes = bytes_of(&alloc);
        Self { slot, alloc, bytes }
    }

    /// The allocation in a state that may have it elsewhere.
    #[inline]
    pub fn slot_in(&self, store: &Store) -> Option<AllocSlot> {
        let id = self.alloc.id;
        let is_there = store.allocs().row(self.slot).is_some_and(|row| row.id == id);
        if is_there { Some(self.slot) } else { store.alloc(id).map(|(slot, _)| slot) }
    }

    /// Nothing is known of an allocation any more: its agent does not hold it.
    pub fn nothing(slot: AllocSlot, id: AllocId) -> Self {
        let alloc = ObservedAlloc {
            id,
            status: berth_model::alloc::ClientStatus::Pending,
            description: String::new(),
            tasks: Vec::new(),
            healthy: None,
            health_message: String::new(),
            modified_at: berth_model::Timestamp::default(),
            hash: 0,
            revision: 0,
        };
        Self::new(slot, Arc::new(alloc))
    }

    /// About how many bytes it takes when it is encoded.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes_of(alloc: &ObservedAlloc) -> usize {
    let tasks = alloc.tasks.iter().map(|task| {
        let events = task.events.iter().map(|event| 64 + event.message.len());
        96 + task.name.len() + events.sum::<usize>()
    });
    80 + alloc.description.len() + alloc.health_message.len() + tasks.sum::<usize>()
}

impl NodeReport {
    /// About how many bytes it takes when it is encoded.
    pub fn bytes(&self) -> usize {
        64 + self.seen.iter().map(ReportedAlloc::bytes).sum::<usize>()
    }
}

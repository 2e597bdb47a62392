//! How the consensus engine is given our types: short names for the rest of the crate.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
};

use berth_model::{
    command::{EncodedEntry, Entry, EntryError},
    event::AppliedEntry,
};
use bytes::Bytes;
use minicbor::{Decode, Encode};
use openraft::{
    impls::{BoxedErrorSource, InlineBatch},
    vote::leader_id_std,
};

use crate::runtime::Runtime;

/// Standard Raft: at most one leader a term, so that a term and an index name a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types<R>(PhantomData<R>);

impl<R: Runtime> openraft::RaftTypeConfig for Types<R> {
    type D = Proposal;
    type R = Option<AppliedEntry>;
    type NodeId = u64;
    type Node = Peer;
    type Term = u64;
    type LeaderId = leader_id_std::LeaderId<u64, u64>;
    type Vote = Vote;
    type Payload = Payload;
    type Entry = LogEntry;
    type AsyncRuntime = R::Async;
    type Responder<T>
        = crate::result_sender::ResultSender<T>
    where
        T: Send + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: Send + 'static;
    type ErrorSource = BoxedErrorSource;
}

/// Who led when a record was made.
type Leader = leader_id_std::CommittedLeaderId<u64>;

pub(crate) type LogId = openraft::LogId<Leader>;
pub(crate) type LogEntry = openraft::Entry<Leader, Payload>;
pub(crate) type Payload = openraft::EntryPayload<Proposal, u64, Peer>;
pub(crate) type Vote = openraft::Vote<leader_id_std::LeaderId<u64, u64>>;
pub(crate) type Membership = openraft::Membership<u64, Peer>;
pub(crate) type StoredMembership = openraft::StoredMembership<Leader, u64, Peer>;
pub(crate) type SnapshotMeta = openraft::storage::SnapshotMeta<Leader, u64, Peer>;
pub(crate) type Snapshot = openraft::storage::Snapshot<Leader, u64, Peer, crate::snapshot::SnapshotImage>;
pub(crate) type Flushed<R> = openraft::storage::IOFlushed<Types<R>>;
pub(crate) type Raft<R> = openraft::Raft<Types<R>, crate::machine::Machine>;

/// Names a record.
pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(Leader::new(term), index)
}

/// The term in a record's name.
pub(crate) fn term_of(id: &LogId) -> u64 {
    **id.committed_leader_id()
}

/// A server, as the cluster's membership holds it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Peer {
    /// Where it listens to other servers, host and port; empty for a server that is alone and listens to none.
    #[n(0)]
    pub address: String,
    /// Its name, for users.
    #[n(1)]
    pub name: String,
    /// Where its HTTP API listens, host and port.
    #[n(2)]
    pub http: String,
    /// Where it listens to agents, host and port.
    #[n(3)]
    pub agent: String,
}

/// An entry on its way: its bytes, and beside them what they say, so that the server that encoded them need not
/// decode them.
#[derive(Clone)]
pub(crate) struct Proposal {
    bytes: Bytes,
    decoded: Arc<Mutex<Option<Entry>>>,
}

impl Proposal {
    /// Takes an entry that was made here.
    pub fn new(entry: EncodedEntry) -> Self {
        let (entry, bytes) = entry.into_parts();
        Self { bytes: bytes.into(), decoded: Arc::new(Mutex::new(Some(entry))) }
    }

    /// Takes an entry's bytes as they came from a disk or a peer.
    pub fn from_bytes(bytes: Bytes) -> Self {
        Self { bytes, decoded: Arc::default() }
    }

    /// The encoded entry.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The entry, to apply it, of a version up to `known`. Each entry is applied once, so the first call takes what was kept.
    pub fn entry(&self, known: u8) -> Result<Entry, EntryError> {
        let decoded = self.decoded.lock().unwrap_or_else(PoisonError::into_inner).take();
        decoded.map_or_else(|| Entry::decode_up_to(&self.bytes, known), Ok)
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry of {} bytes", self.bytes.len())
    }
}

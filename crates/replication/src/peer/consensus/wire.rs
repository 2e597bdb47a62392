//! What the consensus engines of two servers say to each other, as bytes. Entries go as the records that they become in
//! a log, each with its checksum.

#[cfg(test)]
mod golden;

use bytes::Bytes;
use minicbor::{Decode, Encode};
use openraft::{
    raft::{
        AppendEntriesRequest, SnapshotResponse, StreamAppendError, StreamAppendResult, TransferLeaderError,
        TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
    },
    vote::leader_id_std::LeaderId,
};

use crate::{
    log::record::{self, Marks},
    membership::StoredMembers,
    peer::frame::Method,
    runtime::Runtime,
    snapshot::SnapshotCoverage,
    types::{self, LogId, Types, log_id, term_of},
};

/// A vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) struct WireVote {
    #[n(0)]
    term: u64,
    #[n(1)]
    server: u64,
    #[n(2)]
    granted: bool,
}

impl From<types::Vote> for WireVote {
    fn from(vote: types::Vote) -> Self {
        let LeaderId { term, voted_for } = vote.leader_id;
        Self { term, server: voted_for, granted: vote.committed }
    }
}

impl From<WireVote> for types::Vote {
    fn from(vote: WireVote) -> Self {
        let leader_id = LeaderId { term: vote.term, voted_for: vote.server };
        Self { leader_id, committed: vote.granted }
    }
}

/// A record's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) struct RecordName {
    #[n(0)]
    term: u64,
    #[n(1)]
    index: u64,
}

impl RecordName {
    pub fn index(self) -> u64 {
        self.index
    }
}

impl From<LogId> for RecordName {
    fn from(id: LogId) -> Self {
        Self { term: term_of(&id), index: id.index() }
    }
}

impl From<RecordName> for LogId {
    fn from(name: RecordName) -> Self {
        log_id(name.term, name.index)
    }
}

fn name(id: Option<LogId>) -> Option<RecordName> {
    id.map(RecordName::from)
}

fn id(name: Option<RecordName>) -> Option<LogId> {
    name.map(LogId::from)
}

/// What goes before the records of an append.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct AppendHead {
    /// Appends of one number are one stream: each is dealt with after the one before it, and none after one that failed.
    #[n(0)]
    stream: u64,
    #[n(1)]
    vote: WireVote,
    #[n(2)]
    previous: Option<RecordName>,
    #[n(3)]
    commit: Option<RecordName>,
    #[n(4)]
    entries: u32,
}

/// The server as which a call speaks, where it speaks as one: who stands for election, or leads.
///
/// # Errors
/// What is wrong with it.
pub(super) fn speaker(method: Method, body: &Bytes) -> Result<Option<u64>, String> {
    let vote = match method {
        Method::Append | Method::Heartbeat => {
            let head: Result<AppendHead, _> = minicbor::Decoder::new(body).decode();
            head.map_err(|error| error.to_string())?.vote
        }
        Method::Vote | Method::PreVote => get::<WireVoteRequest>(body)?.vote,
        Method::Transfer => get::<WireTransferRequest>(body)?.from,
        Method::SnapshotEnd => get::<SnapshotEnd>(body)?.vote,
        Method::SnapshotBegin | Method::SnapshotPiece | Method::Request | Method::Relay => return Ok(None),
    };
    Ok(Some(vote.server))
}

/// Appends an append to a frame.
pub(super) fn encode_append<R: Runtime>(
    stream: u64,
    append: &AppendEntriesRequest<Types<R>>,
    out: &mut Vec<u8>,
) {
    let head = AppendHead {
        stream,
        vote: append.vote.into(),
        previous: name(append.prev_log_id),
        commit: name(append.leader_commit),
        entries: u32::try_from(append.entries.len()).expect("a few hundred entries are sent at once"),
    };
    minicbor::encode(head, &mut *out).expect("encoding to memory does not fail");
    for entry in &append.entries {
        record::encode(entry, Marks::default(), out);
    }
}

/// An append and the stream that it belongs to.
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode_append<R: Runtime>(
    body: &Bytes,
) -> Result<(u64, AppendEntriesRequest<Types<R>>), String> {
    let mut decoder = minicbor::Decoder::new(body);
    let head: AppendHead = decoder.decode().map_err(|error| error.to_string())?;
    let mut rest = body.slice(decoder.position()..);
    let mut entries = Vec::new();
    for _ in 0..head.entries {
        let (entry, bytes) =
            record::decode(&rest).map_err(|what| format!("a record on its way is damaged: {what}"))?;
        entries.push(entry);
        rest = rest.slice(bytes..);
    }
    let append = AppendEntriesRequest {
        vote: head.vote.into(),
        prev_log_id: id(head.previous),
        entries,
        leader_commit: id(head.commit),
    };
    Ok((head.stream, append))
}

/// What came of an append: one of the two errors, or how far the logs are the same.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct AppendReply {
    #[n(0)]
    matching: Option<RecordName>,
    #[n(1)]
    conflict: Option<RecordName>,
    #[n(2)]
    higher: Option<WireVote>,
}

impl AppendReply {
    pub fn of<R: Runtime>(result: StreamAppendResult<Types<R>>) -> Self {
        let nothing = Self { matching: None, conflict: None, higher: None };
        match result {
            Ok(matching) => Self { matching: name(matching), ..nothing },
            Err(StreamAppendError::Conflict(at)) => Self { conflict: Some(at.into()), ..nothing },
            Err(StreamAppendError::HigherVote(vote)) => Self { higher: Some(vote.into()), ..nothing },
        }
    }

    pub fn into_result<R: Runtime>(self) -> StreamAppendResult<Types<R>> {
        match self {
            Self { higher: Some(vote), .. } => Err(StreamAppendError::HigherVote(vote.into())),
            Self { conflict: Some(at), .. } => Err(StreamAppendError::Conflict(at.into())),
            Self { matching, .. } => Ok(id(matching)),
        }
    }
}

/// Asks for a vote.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct WireVoteRequest {
    #[n(0)]
    vote: WireVote,
    #[n(1)]
    last: Option<RecordName>,
    #[n(2)]
    transfer: bool,
}

impl WireVoteRequest {
    pub fn of<R: Runtime>(request: &VoteRequest<Types<R>>) -> Self {
        Self {
            vote: request.vote.into(),
            last: name(request.last_log_id),
            transfer: request.leadership_transfer,
        }
    }

    pub fn into_request<R: Runtime>(self) -> VoteRequest<Types<R>> {
        let request = VoteRequest::new(self.vote.into(), id(self.last));
        VoteRequest { leadership_transfer: self.transfer, ..request }
    }
}

/// Gives or refuses a vote.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct VoteReply {
    #[n(0)]
    vote: WireVote,
    #[n(1)]
    granted: bool,
    #[n(2)]
    last: Option<RecordName>,
}

impl VoteReply {
    pub fn of<R: Runtime>(response: &VoteResponse<Types<R>>) -> Self {
        Self { vote: response.vote.into(), granted: response.vote_granted, last: name(response.last_log_id) }
    }

    pub fn into_response<R: Runtime>(self) -> VoteResponse<Types<R>> {
        VoteResponse { vote: self.vote.into(), vote_granted: self.granted, last_log_id: id(self.last) }
    }
}

/// Asks to stand for election at once, or not to wait for the leader any longer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct WireTransferRequest {
    #[n(0)]
    from: WireVote,
    #[n(1)]
    to: u64,
    #[n(2)]
    last: Option<RecordName>,
}

impl WireTransferRequest {
    pub fn of<R: Runtime>(request: &TransferLeaderRequest<Types<R>>) -> Self {
        Self {
            from: (*request.from_leader()).into(),
            to: *request.to_node_id(),
            last: name(request.last_log_id().copied()),
        }
    }

    pub fn into_request<R: Runtime>(self) -> TransferLeaderRequest<Types<R>> {
        TransferLeaderRequest::new(self.from.into(), self.to, id(self.last))
    }
}

/// Why leadership is not taken over: another vote, or a log that is behind; neither when it is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct TransferReply {
    #[n(0)]
    votes: Option<(WireVote, WireVote)>,
    #[n(1)]
    logs: Option<(Option<RecordName>, Option<RecordName>)>,
}

impl TransferReply {
    pub fn of<R: Runtime>(response: TransferLeaderResponse<Types<R>>) -> Self {
        match response {
            Ok(()) => Self { votes: None, logs: None },
            Err(TransferLeaderError::VoteChanged { expected, actual }) => {
                Self { votes: Some((expected.into(), actual.into())), logs: None }
            }
            Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
                Self { votes: None, logs: Some((name(expected), name(actual))) }
            }
        }
    }

    pub fn into_response<R: Runtime>(self) -> TransferLeaderResponse<Types<R>> {
        match (self.votes, self.logs) {
            (Some((expected, actual)), _) => {
                Err(TransferLeaderError::VoteChanged { expected: expected.into(), actual: actual.into() })
            }
            (None, Some((expected, actual))) => {
                Err(TransferLeaderError::LogNotFlushed { expected: id(expected), actual: id(actual) })
            }
            (None, None) => Ok(()),
        }
    }
}

/// Announces a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct SnapshotBegin {
    #[n(0)]
    pub last: RecordName,
    #[n(1)]
    members: StoredMembers,
    /// Of the whole file.
    #[n(2)]
    pub bytes: u64,
    /// The file's first bytes, which hold the checksum of all others: they show whether it is the same as one of which a
    /// part has arrived already.
    #[n(3)]
    #[cbor(with = "minicbor::bytes")]
    pub preamble: Vec<u8>,
}

impl SnapshotBegin {
    pub fn new(meta: &SnapshotCoverage, bytes: u64, preamble: Vec<u8>) -> Self {
        Self { last: meta.last.into(), members: StoredMembers::of(&meta.membership), bytes, preamble }
    }

    /// What the snapshot covers.
    ///
    /// # Errors
    /// When its membership is none.
    pub fn meta(&self) -> Result<SnapshotCoverage, String> {
        // Who has left stands in the snapshot itself.
        let (membership, departed) = (self.members.clone().into_stored()?, Vec::new());
        Ok(SnapshotCoverage { last: self.last.into(), membership, departed })
    }
}

/// A part of a snapshot's file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct SnapshotChunk {
    #[n(0)]
    pub offset: u64,
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
}

/// How much of a snapshot's file has arrived, in bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) struct SnapshotReply {
    #[n(0)]
    pub bytes: u64,
}

/// All of a snapshot's file was sent, by a leader of this vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) struct SnapshotEnd {
    #[n(0)]
    pub vote: WireVote,
}

impl SnapshotEnd {
    pub fn into_response<R: Runtime>(self) -> SnapshotResponse<Types<R>> {
        SnapshotResponse::new(self.vote.into())
    }
}

/// Appends a message to a frame.
pub(super) fn put(message: &impl Encode<()>, out: &mut Vec<u8>) {
    minicbor::encode(message, out).expect("encoding to memory does not fail");
}

/// Reads a message.
///
/// # Errors
/// What is wrong with it.
pub(super) fn get<'b, T: Decode<'b, ()>>(body: &'b [u8]) -> Result<T, String> {
    minicbor::decode(body).map_err(|error| format!("a message between servers cannot be read: {error}"))
}

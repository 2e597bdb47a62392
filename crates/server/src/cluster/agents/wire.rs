//! Messages between servers about agents. Queries and outcomes are encoded as in the agents' protocol.

#[cfg(test)]
mod golden;

use berth_api::{
    LogDetail, LogFormat,
    agent::{AgentOutcome, AgentQuery, AgentRequest, AgentResponse},
};
use berth_model::{AllocId, NodeId};
use minicbor::{Decode, Encode};
use prost::Message;
use tracing::Level;

use crate::shared::{AgentError, ExecInput, ExecOutput, ExecRequest, ReadPiece, ReadRequest, ReadSource};

/// A request to the server that has an agent's session, which it does not relay further.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::cluster) enum RelayedRequest {
    /// Whether the server has a session with this node's agent.
    #[n(0)]
    Find(#[n(0)] NodeId),
    /// A question to an agent: an [`AgentRequest`].
    #[n(1)]
    Ask(
        #[n(0)] NodeId,
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    /// To read a log or a file.
    #[n(2)]
    Read(#[n(0)] NodeId, #[n(1)] WireRead),
    /// To run a command.
    #[n(3)]
    Exec(#[n(0)] NodeId, #[n(1)] WireExec),
    /// What comes next of something that was begun; waits for it, for a while.
    #[n(4)]
    Next(#[n(0)] u64),
    /// Something for a command that was begun; waits until its buffer takes it, for a while.
    #[n(5)]
    Input(#[n(0)] u64, #[n(1)] WireInput),
    /// Somebody waits for it still.
    #[n(6)]
    Keep(#[n(0)] u64),
    /// Closes a stream that nobody reads any more.
    #[n(7)]
    End(#[n(0)] u64),
    /// To follow the log of the server itself.
    #[n(8)]
    ServerLog(#[n(0)] WireLogDetail),
}

/// What a server answers of an agent.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::cluster) enum RelayedAnswer {
    /// Yes; it is done.
    #[n(0)]
    Done,
    /// Not yet, or no.
    #[n(1)]
    NotYet,
    /// It is over, and everything has been sent.
    #[n(2)]
    Ended,
    /// Nothing came of it.
    #[n(3)]
    Failed(#[n(0)] WireError),
    /// What an agent answered: an [`AgentResponse`].
    #[n(4)]
    Outcome(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    /// It has begun, under this number.
    #[n(5)]
    Begun(#[n(0)] u64),
    /// A piece of a log or a file.
    #[n(6)]
    Piece(#[n(0)] WirePiece),
    /// Output of a command.
    #[n(7)]
    Output(#[n(0)] WireOutput),
}

/// [`ReadRequest`] on its way.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::cluster) struct WireRead {
    #[n(0)]
    alloc: AllocId,
    #[n(1)]
    task: String,
    #[n(2)]
    stream: String,
    #[n(3)]
    offset: u64,
    #[n(4)]
    from_end: bool,
    #[n(5)]
    follow: bool,
    /// A file's path; none for a log.
    #[n(6)]
    path: Option<String>,
    /// Bytes to read of a file.
    #[n(7)]
    limit: Option<u64>,
    /// The agent's own log instead. An older server asks the agent for a log without a name, and hears that there is none.
    #[n(8)]
    agent_log: Option<WireLogDetail>,
}

/// [`LogDetail`] on its way.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::cluster) struct WireLogDetail {
    /// As `INFO`.
    #[n(0)]
    level: String,
    #[n(1)]
    json: bool,
}

/// [`ExecRequest`] on its way.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::cluster) struct WireExec {
    #[n(0)]
    alloc: AllocId,
    #[n(1)]
    task: String,
    #[n(2)]
    command: Vec<String>,
    #[n(3)]
    tty: bool,
}

/// [`ReadPiece`] on its way.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::cluster) struct WirePiece {
    #[n(0)]
    offset: u64,
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    data: Vec<u8>,
    #[n(2)]
    file: String,
    /// What happened to the file.
    #[n(3)]
    event: Option<String>,
}

/// [`ExecInput`] on its way.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::cluster) enum WireInput {
    #[n(0)]
    Data(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    #[n(1)]
    Close,
    #[n(2)]
    Resize(#[n(0)] u16, #[n(1)] u16),
}

/// [`ExecOutput`] on its way.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::cluster) enum WireOutput {
    #[n(0)]
    Stdout(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    #[n(1)]
    Stderr(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    #[n(2)]
    Exited(#[n(0)] i32),
}

/// [`AgentError`] on its way; of which node both sides know.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::cluster) enum WireError {
    #[n(0)]
    NotFound(#[n(0)] String),
    #[n(1)]
    Invalid(#[n(0)] String),
    #[n(2)]
    Busy(#[n(0)] String),
    #[n(3)]
    NotConnected,
    #[n(4)]
    Silent,
    #[n(5)]
    Failed(#[n(0)] String),
}

/// A question as bytes.
pub(super) fn query(query: AgentQuery) -> Vec<u8> {
    AgentRequest { request: 0, query: Some(query) }.encode_to_vec()
}

/// A question from bytes; none when it is of a newer version.
pub(super) fn read_question(bytes: &[u8]) -> Option<AgentQuery> {
    AgentRequest::decode(bytes).ok()?.query
}

/// An outcome as bytes.
pub(super) fn outcome(outcome: AgentOutcome) -> Vec<u8> {
    AgentResponse { request: 0, outcome: Some(outcome) }.encode_to_vec()
}

/// An outcome from bytes; none when it is of a newer version.
pub(super) fn read_outcome(bytes: &[u8]) -> Option<AgentOutcome> {
    AgentResponse::decode(bytes).ok()?.outcome
}

impl From<ReadRequest> for WireRead {
    fn from(request: ReadRequest) -> Self {
        let ReadRequest { alloc, source, offset, from_end, follow } = request;
        let (task, stream) = (String::new(), String::new());
        let (path, limit, agent_log) = (None, None, None);
        let read = Self { alloc, task, stream, offset, from_end, follow, path, limit, agent_log };
        match source {
            ReadSource::Log { task, stream } => Self { task, stream, ..read },
            ReadSource::File { path, limit } => Self { path: Some(path), limit: Some(limit), ..read },
            ReadSource::AgentLog(detail) => Self { agent_log: Some(detail.into()), ..read },
        }
    }
}

impl From<WireRead> for ReadRequest {
    fn from(request: WireRead) -> Self {
        let WireRead { alloc, task, stream, offset, from_end, follow, path, limit, agent_log } = request;
        let source = match (agent_log, path) {
            (Some(lines), _) => ReadSource::AgentLog(lines.into()),
            (None, Some(path)) => ReadSource::File { path, limit: limit.unwrap_or(0) },
            (None, None) => ReadSource::Log { task, stream },
        };
        Self { alloc, source, offset, from_end, follow }
    }
}

impl From<LogDetail> for WireLogDetail {
    fn from(detail: LogDetail) -> Self {
        Self { level: detail.level.to_string(), json: detail.is_json() }
    }
}

impl From<WireLogDetail> for LogDetail {
    fn from(WireLogDetail { level, json }: WireLogDetail) -> Self {
        Self::read(&level, json).unwrap_or(Self { level: Level::INFO, format: LogFormat::of(json) })
    }
}

impl From<ExecRequest> for WireExec {
    fn from(request: ExecRequest) -> Self {
        let ExecRequest { alloc, task, command, tty } = request;
        Self { alloc, task, command, tty }
    }
}

impl From<WireExec> for ExecRequest {
    fn from(request: WireExec) -> Self {
        let WireExec { alloc, task, command, tty } = request;
        Self { alloc, task, command, tty }
    }
}

impl From<ReadPiece> for WirePiece {
    fn from(chunk: ReadPiece) -> Self {
        let ReadPiece { offset, data, file, event } = chunk;
        Self { offset, data: data.into(), file, event: (!event.is_empty()).then_some(event) }
    }
}

impl From<WirePiece> for ReadPiece {
    fn from(piece: WirePiece) -> Self {
        let WirePiece { offset, data, file, event } = piece;
        Self { offset, data: data.into(), file, event: event.unwrap_or_default() }
    }
}

impl From<ExecInput> for WireInput {
    fn from(input: ExecInput) -> Self {
        match input {
            ExecInput::Data(data) => Self::Data(data.into()),
            ExecInput::Close => Self::Close,
            ExecInput::Resize { rows, columns } => Self::Resize(rows, columns),
        }
    }
}

impl From<WireInput> for ExecInput {
    fn from(input: WireInput) -> Self {
        match input {
            WireInput::Data(data) => Self::Data(data.into()),
            WireInput::Close => Self::Close,
            WireInput::Resize(rows, columns) => Self::Resize { rows, columns },
        }
    }
}

impl From<ExecOutput> for WireOutput {
    fn from(output: ExecOutput) -> Self {
        match output {
            ExecOutput::Stdout(data) => Self::Stdout(data.into()),
            ExecOutput::Stderr(data) => Self::Stderr(data.into()),
            ExecOutput::Exited(code) => Self::Exited(code),
        }
    }
}

impl From<WireOutput> for ExecOutput {
    fn from(output: WireOutput) -> Self {
        match output {
            WireOutput::Stdout(data) => Self::Stdout(data.into()),
            WireOutput::Stderr(data) => Self::Stderr(data.into()),
            WireOutput::Exited(code) => Self::Exited(code),
        }
    }
}

impl From<AgentError> for WireError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::NotFound(text) => Self::NotFound(text),
            AgentError::Invalid(text) => Self::Invalid(text),
            AgentError::Busy(text) => Self::Busy(text),
            AgentError::NotConnected(_) => Self::NotConnected,
            AgentError::Silent(_) => Self::Silent,
            AgentError::Failed(text) => Self::Failed(text),
        }
    }
}

impl WireError {
    /// The error, of this node, or of the server itself.
    pub fn of(self, node: Option<NodeId>) -> AgentError {
        let lost = |of: fn(NodeId) -> AgentError| {
            node.map_or_else(|| AgentError::Failed("it does not answer".to_owned()), of)
        };
        match self {
            Self::NotFound(text) => AgentError::NotFound(text),
            Self::Invalid(text) => AgentError::Invalid(text),
            Self::Busy(text) => AgentError::Busy(text),
            Self::NotConnected => lost(AgentError::NotConnected),
            Self::Silent => lost(AgentError::Silent),
            Self::Failed(text) => AgentError::Failed(text),
        }
    }
}

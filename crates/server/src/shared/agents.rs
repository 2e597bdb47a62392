//! Requests of handlers to agents.

use async_trait::async_trait;
use berth_api::{
    LogDetail,
    agent::{AgentOutcome, AgentQuery},
};
use berth_model::{AllocId, NodeId};
use bytes::Bytes;
use tokio::sync::mpsc;

/// The way to the agents, whichever server they are connected to. The HTTP side knows them by this alone.
#[async_trait]
pub trait Agents: Send + Sync + 'static {
    /// Reads a task's log, a file of an allocation, or the agent's own log. Dropping the receiver ends the read. The channel is bounded:
    /// a slow reader slows the agent down.
    async fn read_file(&self, node: NodeId, request: ReadRequest) -> Result<ReadPieces, AgentError>;

    /// Sends a query or a command. A response of [`AgentOutcome::Refused`] is returned as an error.
    async fn ask(&self, node: NodeId, query: AgentQuery) -> Result<AgentOutcome, AgentError>;

    /// Runs a command within a task.
    async fn exec(&self, node: NodeId, request: ExecRequest) -> Result<ExecLink, AgentError>;
}

/// Why a request to an agent failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The requested object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It makes no sense, or not now.
    #[error("{0}")]
    Invalid(String),
    /// Too much is going on.
    #[error("{0}")]
    Busy(String),
    /// The node's agent is not connected.
    #[error("node {0} is not connected: try again once its agent is back")]
    NotConnected(NodeId),
    /// The agent does not answer.
    #[error("node {0} did not answer in time: try again, or look at its agent's log")]
    Silent(NodeId),
    /// The agent failed to do it.
    #[error("{0}")]
    Failed(String),
}

/// What to read, and from where.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// The allocation.
    pub alloc: AllocId,
    /// What is read: a log or a file.
    pub source: ReadSource,
    /// Bytes from the start, or back from the end.
    pub offset: u64,
    /// Count `offset` back from the end.
    pub from_end: bool,
    /// Keep sending what is written until the task is done, or all tasks where a file is read.
    pub follow: bool,
}

/// A log, or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadSource {
    /// What a task prints.
    Log {
        /// The task's name.
        task: String,
        /// `stdout` or `stderr`.
        stream: String,
    },
    /// A file of the allocation.
    File {
        /// From the top of the allocation's directory.
        path: String,
        /// Bytes to read; 0 for all.
        limit: u64,
    },
    /// What the agent itself logs, from now on; its first piece is empty. The allocation does not matter.
    AgentLog(LogDetail),
}

/// A piece of a read. One without data and event only says that the read goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPiece {
    /// Bytes since the task's first output, or from the file's beginning.
    pub offset: u64,
    /// The bytes of this piece.
    pub data: Bytes,
    /// The file's name.
    pub file: String,
    /// What happened to the file, as `file truncated`; empty with bytes.
    pub event: String,
}

/// The pieces of what is read, as they come.
pub type ReadPieces = mpsc::Receiver<Result<ReadPiece, AgentError>>;

/// A command to run within a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// The allocation of the task.
    pub alloc: AllocId,
    /// The task's name.
    pub task: String,
    /// The program, and its arguments.
    pub command: Vec<String>,
    /// Give it a terminal.
    pub tty: bool,
}

/// A command that runs within a task. It is ended when either half is dropped; both are bounded, so that neither side is
/// ahead of the other.
#[derive(Debug)]
pub struct ExecLink {
    /// What it is sent.
    pub input: mpsc::Sender<ExecInput>,
    /// What it reports; nothing follows an error or its end.
    pub output: mpsc::Receiver<Result<ExecOutput, AgentError>>,
}

/// What a command is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// It may read this.
    Data(Bytes),
    /// It will have nothing more to read.
    Close,
    /// Its terminal has another size, in characters.
    Resize {
        /// Height in lines.
        rows: u16,
        /// Characters of a line.
        columns: u16,
    },
}

/// What a command reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    /// Bytes of its standard output.
    Stdout(Bytes),
    /// Bytes of its standard error.
    Stderr(Bytes),
    /// It ended with this exit code, and has reported all before.
    Exited(i32),
}

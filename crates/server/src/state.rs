//! What request handlers see of the engine: the state to read, and a way to change it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use berth_model::{
    AllocId, Index,
    command::{Command, Outcome},
    observed::Observed,
    store::Store,
};
use bytes::Bytes;
use tokio::sync::mpsc;

pub use crate::histogram::Spread;
use crate::{EventHub, Watchers};

/// Everything that can be read, at one index. Cheap to clone and never changed.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The replicated state.
    pub store: Store,
    /// What agents observe.
    pub observed: Observed,
    /// Up to where changes of either are in it.
    pub index: Index,
    /// Nodes that are wanted and have not yet confirmed what runs on them.
    pub unconfirmed_nodes: usize,
}

/// A committed change.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Its index; readers that ask for it see the change.
    pub index: Index,
    /// What came of each command.
    pub outcomes: Vec<Outcome>,
}

/// Why a change was not made, or is not known to have been made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProposeError {
    /// Too much is waiting: try again after a moment.
    #[error("the server has {0} changes waiting to be written: try again in a moment")]
    Busy(usize),
    /// Larger than an entry of the log may be.
    #[error(
        "the change takes {bytes} bytes when it is encoded; one entry of the log holds at most {max}, so that no change \
         holds up all others"
    )]
    TooLarge {
        /// Encoded size.
        bytes: usize,
        /// [`berth_model::command::ENTRY_BYTES_MAX`].
        max: usize,
    },
    /// The log cannot be written; whether the change was made is unknown.
    #[error("the log cannot be written: {0}")]
    Log(String),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

/// Which log to read, and from where.
#[derive(Debug, Clone)]
pub struct LogRequest {
    /// Whose.
    pub alloc: AllocId,
    /// The task's name.
    pub task: String,
    /// `stdout` or `stderr`.
    pub stream: String,
    /// Bytes from the start, or back from the end.
    pub offset: u64,
    /// Count `offset` back from the end.
    pub from_end: bool,
    /// Keep sending what is written until the task is done.
    pub follow: bool,
}

/// A piece of a log; an empty one says that the reader still lives.
#[derive(Debug, Clone)]
pub struct LogChunk {
    /// Bytes since the task's first output.
    pub offset: u64,
    /// The piece.
    pub data: Bytes,
    /// The file's name.
    pub file: String,
}

/// Why a log cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// No such task, or its log is gone.
    #[error("{0}")]
    NotFound(String),
    /// The node's agent is not connected.
    #[error("node {0} is not connected: its logs can be read once its agent is back")]
    NotConnected(berth_model::NodeId),
    /// The agent failed to read it.
    #[error("{0}")]
    Failed(String),
}

/// What changes the state. One for the whole server; the HTTP side knows it by this alone.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Proposes commands as one change, and returns once it is committed, applied and can be read.
    async fn propose(&self, commands: Vec<Command>) -> Result<Committed, ProposeError>;

    /// Reads a task's log from its node. Dropping the receiver ends the reading; the channel is bounded, and a reader
    /// that does not take what comes slows the agent down.
    async fn read_log(
        &self,
        request: LogRequest,
    ) -> Result<mpsc::Receiver<Result<LogChunk, LogError>>, LogError>;

    /// A new random id.
    fn mint_id(&self) -> u128;

    /// How far the log has come.
    fn log_position(&self) -> LogPosition;

    /// Name, kind and value of each of the engine's own measurements, for `/v1/metrics`.
    fn metrics(&self) -> Vec<Metric>;
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPosition {
    /// The leader's term.
    pub term: u64,
    /// The last record that has been applied.
    pub index: u64,
}

/// One measurement.
#[derive(Debug, Clone)]
pub struct Metric {
    /// In Prometheus' spelling, with its unit last: `berth_log_bytes_total`.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// The value.
    pub value: Measured,
}

/// What was measured, and how it behaves.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// Only grows.
    Counter(f64),
    /// Goes up and down.
    Gauge(f64),
    /// Many values, by their size.
    Spread(Spread),
}

/// Shared by all request handlers.
#[derive(Clone)]
pub struct State {
    /// The latest view.
    pub view: Arc<ArcSwap<View>>,
    /// Blocked readers.
    pub watchers: Arc<Watchers>,
    /// Followers of the event stream.
    pub events: Arc<EventHub>,
    /// What changes the state.
    pub engine: Arc<dyn Engine>,
    /// Who this server is.
    pub server: Arc<ServerInfo>,
}

/// Who a server is, for agent/self, members and leader.
#[derive(Debug, Clone, Default)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// The region's name.
    pub region: String,
    /// Its own datacenter.
    pub datacenter: String,
    /// Where its HTTP API listens, HOST:PORT.
    pub http_addr: String,
    /// Where agents connect, HOST:PORT.
    pub agent_addr: String,
    /// Berth's version.
    pub version: String,
    /// The settings it runs with, name and value, for agent/self.
    pub settings: Vec<(String, String)>,
}

impl State {
    /// The latest view.
    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }
}

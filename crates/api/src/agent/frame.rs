//! What frames between agents and servers carry: protobuf messages that name their session.

use bytes::Bytes;

use super::{
    AgentRequest, AgentResponse, ExecDown, ExecUp, NodeSpec, ReadSecrets, SecretsRead, SignTokens,
    SignedTokens, TaskApi, VariablesWatched, WatchVariables,
};
use crate::secrets::debug_shows;

/// The largest frame either side accepts on a connection with an open session, length prefix excluded.
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// The largest frame that a server accepts before a session is open: a hello, which describes its node.
pub const HELLO_BYTES_MAX: usize = 256 << 10;
/// The largest frame that an agent accepts before it is welcomed: a welcome or a refusal.
pub const WELCOME_BYTES_MAX: usize = 64 << 10;
/// An agent says no more often than this that its node has changed: milliseconds.
pub const NODE_CHANGED_EVERY_MS: u64 = 30_000;
/// The same where an operator has changed it: milliseconds.
pub const NODE_CHANGED_BY_OPERATOR_EVERY_MS: u64 = 1_000;
/// The most addresses in [`Servers`].
pub const SERVERS_MAX: usize = 32;
/// The most servers of which an agent is informed, and remembers, that they were revoked.
pub const REVOKED_SERVERS_MAX: usize = 256;
/// The most certificates in one [`Renewed`].
pub const RENEWED_CHAIN_MAX: usize = 8;
/// The most statuses in one [`Update`].
pub const UPDATE_ALLOCS_MAX: usize = 4096;
/// The most allocations that the parts of one full list name together.
pub const DESIRED_ALLOCS_MAX: usize = 100_000;
/// Most bytes of a full list that comes in parts.
pub const DESIRED_BYTES_MAX: usize = 1 << 30;

/// From agent to server.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpFrame {
    /// Which of the connection's sessions speaks; chosen by the agent's side.
    #[prost(uint32, tag = "1")]
    pub session: u32,
    /// The message.
    #[prost(oneof = "Up", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14")]
    pub message: Option<Up>,
}

/// What an agent says.
// One hello opens a session, and then none is ever built: boxing it would buy nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Up {
    /// Opens the session.
    #[prost(message, tag = "2")]
    Hello(Hello),
    /// What changed on the node; counts as a heartbeat.
    #[prost(message, tag = "3")]
    Update(Update),
    /// Nothing changed, the node lives.
    #[prost(message, tag = "4")]
    Heartbeat(Heartbeat),
    /// A piece of a file that the server reads.
    #[prost(message, tag = "5")]
    FileChunk(FileChunk),
    /// The response to a request of the server.
    #[prost(message, tag = "6")]
    Answer(AgentResponse),
    /// News of a command that somebody runs within a task.
    #[prost(message, tag = "7")]
    Exec(ExecUp),
    /// The agent shuts down, and the node is to be drained first.
    #[prost(message, tag = "8")]
    Leaving(Leaving),
    /// The node description has changed since the hello.
    #[prost(message, tag = "9")]
    Changed(NodeChanged),
    /// Asks for tokens of a task.
    #[prost(message, tag = "10")]
    Sign(SignTokens),
    /// Asks for secrets of a task.
    #[prost(message, tag = "11")]
    Secrets(ReadSecrets),
    /// About a connection of a task to the HTTP API.
    #[prost(message, tag = "12")]
    TaskApi(TaskApi),
    /// The certificate was renewed that the connection began with.
    #[prost(message, tag = "13")]
    Renewed(Renewed),
    /// Asks for what templates of a task show of variables.
    #[prost(message, tag = "14")]
    Watch(WatchVariables),
}

/// Another certificate of the same key as the one that was shown when the connection began: from here on the connection lasts
/// as long as this one does. One that is not taken ends it no earlier, and no later, than the one before. A server that does
/// not know of this ends no connection for that.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Renewed {
    /// In DER, the agent's own first, then those between it and an authority; at most [`RENEWED_CHAIN_MAX`].
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub chain: Vec<Vec<u8>>,
}

/// The node is another than the session's hello said, or the last of these: takes its place. At most one each
/// [`NODE_CHANGED_EVERY_MS`], or [`NODE_CHANGED_BY_OPERATOR_EVERY_MS`] where an operator has changed it, of at most [`HELLO_BYTES_MAX`] bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeChanged {
    /// What the node is now.
    #[prost(message, required, tag = "1")]
    pub node: NodeSpec,
}

/// How a node is drained whose agent shuts down.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct Leaving {
    /// That of the node: a session says who it is before it has proved that.
    #[prost(bytes = "vec", tag = "1")]
    pub secret: Vec<u8>,
    /// Milliseconds from now on after which what is left is stopped; 0 for as long as it takes.
    #[prost(uint64, tag = "2")]
    pub deadline_ms: u64,
    /// All of it is stopped at once.
    #[prost(bool, tag = "3")]
    pub force: bool,
    /// What runs on every node stays.
    #[prost(bool, tag = "4")]
    pub ignore_system: bool,
}

debug_shows!(Leaving { deadline_ms, force, ignore_system });

/// From server to agent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DownFrame {
    /// Which of the connection's sessions is spoken to.
    #[prost(uint32, tag = "1")]
    pub session: u32,
    /// The message.
    #[prost(oneof = "Down", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16")]
    pub message: Option<Down>,
}

/// What a server says.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Down {
    /// The session is open.
    #[prost(message, tag = "2")]
    Welcome(Welcome),
    /// The session is not, or no longer, open.
    #[prost(message, tag = "3")]
    Refused(SessionRefused),
    /// What the node should do.
    #[prost(message, tag = "4")]
    Desired(Desired),
    /// An update has been taken in.
    #[prost(message, tag = "5")]
    Ack(Ack),
    /// Asks for a file's content.
    #[prost(message, tag = "6")]
    FileRead(FileRead),
    /// Allows more of it to be sent.
    #[prost(message, tag = "7")]
    FileCredit(FileCredit),
    /// Nobody reads any more.
    #[prost(message, tag = "8")]
    FileCancel(FileCancel),
    /// Asks something, or gives an order, that is answered once.
    #[prost(message, tag = "9")]
    Ask(AgentRequest),
    /// About a command that somebody runs within a task.
    #[prost(message, tag = "10")]
    Exec(ExecDown),
    /// How often to give a sign of life from now on.
    #[prost(message, tag = "11")]
    HeartbeatEvery(HeartbeatEvery),
    /// Where else to connect.
    #[prost(message, tag = "12")]
    Servers(Servers),
    /// Requested tokens.
    #[prost(message, tag = "13")]
    Signed(SignedTokens),
    /// Requested secrets.
    #[prost(message, tag = "14")]
    Secrets(SecretsRead),
    /// About a connection of a task to the HTTP API.
    #[prost(message, tag = "15")]
    TaskApi(TaskApi),
    /// Variables that templates show.
    #[prost(message, tag = "16")]
    Watched(VariablesWatched),
}

/// Opens a session: who the node is, and which states it holds.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct Hello {
    /// [`super::PROTOCOL_VERSION`] of the agent.
    #[prost(uint32, tag = "1")]
    pub protocol_version: u32,
    /// 16 bytes, made by the agent at its first start.
    #[prost(bytes = "vec", tag = "2")]
    pub node_id: Vec<u8>,
    /// Proves that later sessions come from the same node.
    #[prost(bytes = "vec", tag = "3")]
    pub secret: Vec<u8>,
    /// Grows with each start of the agent: of two sessions of one node the newer epoch wins.
    #[prost(uint64, tag = "4")]
    pub epoch: u64,
    /// Of the last change of observed state.
    #[prost(uint64, tag = "5")]
    pub seq: u64,
    /// 16 bytes: the digest of the desired state it holds.
    #[prost(bytes = "vec", tag = "6")]
    pub desired_digest: Vec<u8>,
    /// 16 bytes: the digest of the observed state it holds.
    #[prost(bytes = "vec", tag = "7")]
    pub observed_digest: Vec<u8>,
    /// Of the running kernel.
    #[prost(string, tag = "8")]
    pub boot_id: String,
    /// What the node is.
    #[prost(message, required, tag = "9")]
    pub node: NodeSpec,
    /// 16 bytes: the cluster that the node belongs to; empty while it belongs to none.
    #[prost(bytes = "vec", tag = "10")]
    pub cluster_id: Vec<u8>,
    /// 16 bytes, made again at each start of the agent: distinguishes two agents with copies of one data directory.
    #[prost(bytes = "vec", tag = "11")]
    pub instance: Vec<u8>,
    /// Counts the connections since that start: of two sessions of one start the newer one wins, on whichever servers. 0
    /// where it is not said.
    #[prost(uint64, tag = "12")]
    pub dial: u64,
    /// The index of the desired state that it took in last: a server that has not come as far has for it nothing new. 0 where
    /// it is not said.
    #[prost(uint64, tag = "13")]
    pub index: u64,
}

debug_shows!(Hello {
    protocol_version,
    node_id,
    epoch,
    seq,
    desired_digest,
    observed_digest,
    boot_id,
    node,
    cluster_id,
    instance,
    dial,
    index
});

/// Which observed state the server wants reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum WelcomeMode {
    /// None: the digests are equal.
    Equal = 0,
    /// All that changed after `observed_seq`.
    FromSeq = 1,
    /// The full desired state.
    Full = 2,
}

/// Answers [`Hello`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Welcome {
    /// Which observed state the server wants reported.
    #[prost(enumeration = "WelcomeMode", tag = "1")]
    pub mode: i32,
    /// With [`WelcomeMode::FromSeq`].
    #[prost(uint64, tag = "2")]
    pub observed_seq: u64,
    /// Milliseconds between heartbeats.
    #[prost(uint64, tag = "3")]
    pub heartbeat_ms: u64,
    /// 16 bytes: the server's cluster.
    #[prost(bytes = "vec", tag = "4")]
    pub cluster_id: Vec<u8>,
    /// The server's state was restored from a snapshot of the cluster that the hello named: terms and indexes began
    /// again.
    #[prost(bool, tag = "5")]
    pub restored: bool,
}

/// Takes the place of what [`Welcome`] said: the cluster has grown or shrunk.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeartbeatEvery {
    /// Milliseconds between heartbeats.
    #[prost(uint64, tag = "1")]
    pub heartbeat_ms: u64,
}

/// Where the servers of the cluster take agents: whom to dial when this one is lost. Takes the place of what was said before;
/// comes after a welcome, and again when servers come or go.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Servers {
    /// As HOST:PORT; at most [`SERVERS_MAX`].
    #[prost(string, repeated, tag = "1")]
    pub addresses: Vec<String>,
    /// Those whose certificates are not to be believed any more; at most [`REVOKED_SERVERS_MAX`].
    #[prost(message, repeated, tag = "2")]
    pub revoked: Vec<RevokedServer>,
}

/// A server whose certificates are good for nothing if they are valid from then on or earlier.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RevokedServer {
    /// The name that they name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Seconds since 1970.
    #[prost(uint64, tag = "2")]
    pub at_secs: u64,
}

/// Ends a session.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SessionRefused {
    /// The reason, in words.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// Whether trying again can help.
    #[prost(bool, tag = "2")]
    pub retry: bool,
}

/// Desired state of a node: what changed, or with `full` all of it, which may come in parts.
///
/// Of a full list's parts all but the last say `more`. What a part names applies as it comes; what no part named is to
/// be stopped once the last part is in. It stays known, and is reported, until a later message forgets it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Desired {
    /// The term of the leader that says so; older ones are refused.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The index as of which this holds; older ones are refused.
    #[prost(uint64, tag = "2")]
    pub index: u64,
    /// A part of a full list.
    #[prost(bool, tag = "3")]
    pub full: bool,
    /// Allocations to run.
    #[prost(message, repeated, tag = "4")]
    pub run: Vec<RunAlloc>,
    /// Allocations to stop.
    #[prost(message, repeated, tag = "5")]
    pub stop: Vec<StopAlloc>,
    /// 16 bytes each. Their end is in the log: no longer reported, never run again, files stay.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub forget: Vec<Vec<u8>>,
    /// 16 bytes each. Nobody will ask for their files any more.
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub purge: Vec<Vec<u8>>,
    /// Counts the session's messages of this kind from 1; the parts of one message share its number.
    #[prost(uint64, tag = "8")]
    pub seq: u64,
    /// Further parts of the same message follow.
    #[prost(bool, tag = "9")]
    pub more: bool,
    /// The groups that `run` refers to, each once.
    #[prost(message, repeated, tag = "10")]
    pub groups: Vec<GroupEntry>,
}

impl Desired {
    /// Adds an encoded [`super::GroupSpec`] unless it is there already; answers with the number to refer to it by.
    pub fn group_ref(&mut self, spec: &Bytes) -> u32 {
        let is_same = |entry: &&GroupEntry| {
            entry.spec.len() == spec.len() && (entry.spec.as_ptr() == spec.as_ptr() || entry.spec == *spec)
        };
        if let Some(entry) = self.groups.iter().find(is_same) {
            return entry.group_ref;
        }
        let group_ref = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        self.groups.push(GroupEntry { group_ref, spec: spec.clone() });
        group_ref
    }
}

/// A group's specification, which stands once in a message however many allocations it is for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GroupEntry {
    /// What [`RunAlloc::group_ref`] says; means nothing beyond the message.
    #[prost(uint32, tag = "1")]
    pub group_ref: u32,
    /// An encoded [`super::GroupSpec`].
    #[prost(bytes = "bytes", tag = "2")]
    pub spec: Bytes,
}

/// An allocation that should run.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RunAlloc {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// Which of the group's allocations it is, from 0.
    #[prost(uint32, tag = "2")]
    pub name_index: u32,
    /// Its host ports.
    #[prost(message, repeated, tag = "4")]
    pub ports: Vec<super::PortBinding>,
    /// 16 bytes each: must have ended on this node before this one may start.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub after: Vec<Vec<u8>>,
    /// The job's version.
    #[prost(uint64, tag = "6")]
    pub job_version: u64,
    /// 16 bytes: whom it replaces; empty for nobody.
    #[prost(bytes = "vec", tag = "7")]
    pub previous: Vec<u8>,
    /// Of tasks that have any.
    #[prost(message, repeated, tag = "8")]
    pub devices: Vec<super::TaskDevices>,
    /// Its group: one of the message's `groups`. (Tag 3 held the group itself in version 1.)
    #[prost(uint32, tag = "9")]
    pub group_ref: u32,
    /// What it must show to count as healthy, where its group does not say; absent where no deployment needs its health.
    #[prost(message, optional, tag = "10")]
    pub health: Option<super::HealthSpec>,
    /// The job's version to which it was updated after it was placed: it goes on as its group says now. 0 for as it was placed.
    #[prost(uint64, tag = "11")]
    pub revision: u64,
}

/// An allocation that should end.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StopAlloc {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// The reason, in words.
    #[prost(string, tag = "2")]
    pub reason: String,
}

/// What changed on a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Update {
    /// Of the last change that is in it.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
    /// Encoded [`super::AllocStatus`], the latest of each allocation.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub allocs: Vec<Bytes>,
    /// The last part of what a [`Welcome`] asked for.
    #[prost(bool, tag = "3")]
    pub resync_done: bool,
    /// Of the last [`Desired`] of this session that was taken in; 0 for none.
    #[prost(uint64, tag = "4")]
    pub desired_seq: u64,
}

/// A sign of life, which goes out every interval whatever else is said. A server that has sent just what
/// `desired_seq` says and heard just what `seq` says holds the same two states, or a difference was lost.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Heartbeat {
    /// Of the last change of observed state.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
    /// Of the last [`Desired`] of this session that was taken in; 0 for none.
    #[prost(uint64, tag = "2")]
    pub desired_seq: u64,
    /// 16 bytes: of what the servers want run or stopped.
    #[prost(bytes = "vec", tag = "3")]
    pub desired_digest: Vec<u8>,
    /// 16 bytes: of all that the node knows of, what the servers do not know any more included.
    #[prost(bytes = "vec", tag = "4")]
    pub observed_digest: Vec<u8>,
}

/// An update or a heartbeat has been taken in.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Ack {
    /// Its sequence number.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
    /// How long changes that are not urgent should wait for company from now on, by what the server has to take in: milliseconds;
    /// 0 where it does not say.
    #[prost(uint64, tag = "2")]
    pub delay_ms: u64,
}

/// Asks for a task's log, for a file of an allocation, or for the agent's own log.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FileRead {
    /// Chosen by the server; unique in the session.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub alloc_id: Vec<u8>,
    /// Of a log: the task's name.
    #[prost(string, tag = "3")]
    pub task: String,
    /// Of a log: `stdout` or `stderr`.
    #[prost(string, tag = "4")]
    pub stream: String,
    /// Bytes from the start, or back from the end.
    #[prost(uint64, tag = "5")]
    pub offset: u64,
    /// Count `offset` back from the end.
    #[prost(bool, tag = "6")]
    pub from_end: bool,
    /// Keep sending what is written until the task is done, or all tasks where no log is read.
    #[prost(bool, tag = "7")]
    pub follow: bool,
    /// How many bytes may be sent before a [`FileCredit`].
    #[prost(uint64, tag = "8")]
    pub credit_bytes: u64,
    /// The file, from the top of the allocation's directory, as `web/local/data`; empty for a log.
    #[prost(string, tag = "9")]
    pub path: String,
    /// Bytes to read of a file; 0 for all.
    #[prost(uint64, tag = "10")]
    pub limit: u64,
    /// The log of the agent itself instead of all that, from now on. Its first chunk is empty. Older agents look for the log of a task
    /// without a name, and answer that there is none.
    #[prost(message, optional, tag = "11")]
    pub agent_log: Option<super::AgentLogRead>,
}

/// Allows more of a file to be sent.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct FileCredit {
    /// The request's number.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// How many bytes more.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
}

/// Nobody reads any more.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct FileCancel {
    /// The request's number.
    #[prost(uint64, tag = "1")]
    pub request: u64,
}

/// A piece of a file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FileChunk {
    /// The request's number.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// Where the piece starts: bytes since the task's first output, or from the file's beginning.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// The piece; empty pieces say that the reader still lives.
    #[prost(bytes = "bytes", tag = "3")]
    pub data: Bytes,
    /// Whether this is the last chunk.
    #[prost(bool, tag = "4")]
    pub done: bool,
    /// Why nothing follows, when that is not the end of the log; starts with `not found: ` when the task, its log or the
    /// file is not there, and with `invalid: ` when it cannot be read.
    #[prost(string, tag = "5")]
    pub error: String,
    /// The rotated file's name, as `web.stdout.0`, or the file's path.
    #[prost(string, tag = "6")]
    pub file: String,
    /// What happened to the file, as `file truncated`; such a piece is empty.
    #[prost(string, tag = "7")]
    pub event: String,
}

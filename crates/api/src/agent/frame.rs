//! Frames: a length (u32, big-endian) and a protobuf message that names its session.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use super::{Answer, Ask, ExecDown, ExecUp, NodeSpec};

/// The largest frame either side accepts, length prefix excluded.
pub const FRAME_BYTES_MAX: usize = 4 << 20;

/// From agent to server.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpFrame {
    /// Which of the connection's sessions speaks; chosen by the agent's side.
    #[prost(uint32, tag = "1")]
    pub session: u32,
    /// What it says.
    #[prost(oneof = "Up", tags = "2, 3, 4, 5, 6, 7")]
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
    /// A piece of a file that the server asked for.
    #[prost(message, tag = "5")]
    FileChunk(FileChunk),
    /// Answers what the server asked.
    #[prost(message, tag = "6")]
    Answer(Answer),
    /// News of a command that somebody runs within a task.
    #[prost(message, tag = "7")]
    Exec(ExecUp),
}

/// From server to agent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DownFrame {
    /// Which of the connection's sessions is spoken to.
    #[prost(uint32, tag = "1")]
    pub session: u32,
    /// What is said.
    #[prost(oneof = "Down", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11")]
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
    Refused(Refused),
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
    Ask(Ask),
    /// About a command that somebody runs within a task.
    #[prost(message, tag = "10")]
    Exec(ExecDown),
    /// How often to give a sign of life from now on.
    #[prost(message, tag = "11")]
    HeartbeatEvery(HeartbeatEvery),
}

/// Opens a session: who the node is, and which states it holds.
#[derive(Clone, PartialEq, prost::Message)]
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
    /// 16 bytes: the digest of the wishes it holds.
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
}

/// Which observed state the server wants to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum WelcomeMode {
    /// None: the digests are equal.
    Equal = 0,
    /// All that changed after `observed_seq`.
    FromSeq = 1,
    /// All.
    Full = 2,
}

/// Answers [`Hello`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Welcome {
    /// Which observed state the server wants to be told.
    #[prost(enumeration = "WelcomeMode", tag = "1")]
    pub mode: i32,
    /// With [`WelcomeMode::FromSeq`].
    #[prost(uint64, tag = "2")]
    pub observed_seq: u64,
    /// Milliseconds between heartbeats.
    #[prost(uint64, tag = "3")]
    pub heartbeat_ms: u64,
}

/// Takes the place of what [`Welcome`] said: the cluster has grown or shrunk.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeartbeatEvery {
    /// Milliseconds between heartbeats.
    #[prost(uint64, tag = "1")]
    pub heartbeat_ms: u64,
}

/// Ends a session.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Refused {
    /// For people.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// Whether trying again can help.
    #[prost(bool, tag = "2")]
    pub retry: bool,
}

/// Wishes for a node. Applies to what the agent holds; with `full` it replaces that.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Desired {
    /// The term of the leader that says so; older ones are refused.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The index as of which this holds; older ones are refused.
    #[prost(uint64, tag = "2")]
    pub index: u64,
    /// Whatever the agent holds and `run` or `stop` does not name is to be stopped and forgotten.
    #[prost(bool, tag = "3")]
    pub full: bool,
    /// Should run.
    #[prost(message, repeated, tag = "4")]
    pub run: Vec<RunAlloc>,
    /// Should end.
    #[prost(message, repeated, tag = "5")]
    pub stop: Vec<StopAlloc>,
    /// 16 bytes each. Their end is in the log: no longer told of, never run again, files stay.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub forget: Vec<Vec<u8>>,
    /// 16 bytes each. Nobody will ask for their files any more.
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub purge: Vec<Vec<u8>>,
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
    /// An encoded [`super::GroupSpec`]: encoded once for all allocations of the group.
    #[prost(bytes = "bytes", tag = "3")]
    pub group: Bytes,
    /// Its ports.
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
}

/// An allocation that should end.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StopAlloc {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// For people.
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
}

/// A sign of life.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Heartbeat {
    /// Of the last change of observed state.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
}

/// An update has been taken in.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Ack {
    /// The update's seq.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
}

/// Asks for a task's log.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FileRead {
    /// Chosen by the server; unique in the session.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub alloc_id: Vec<u8>,
    /// The task's name.
    #[prost(string, tag = "3")]
    pub task: String,
    /// `stdout` or `stderr`.
    #[prost(string, tag = "4")]
    pub stream: String,
    /// Bytes from the start, or back from the end.
    #[prost(uint64, tag = "5")]
    pub offset: u64,
    /// Count `offset` back from the end.
    #[prost(bool, tag = "6")]
    pub from_end: bool,
    /// Keep sending what is written until the task is done.
    #[prost(bool, tag = "7")]
    pub follow: bool,
    /// How many bytes may be sent before a [`FileCredit`].
    #[prost(uint64, tag = "8")]
    pub credit_bytes: u64,
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
    /// Where in the log the piece starts: bytes since the task's first output.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// The piece; empty pieces say that the reader still lives.
    #[prost(bytes = "bytes", tag = "3")]
    pub data: Bytes,
    /// Nothing follows.
    #[prost(bool, tag = "4")]
    pub done: bool,
    /// Why nothing follows, when that is not the end of the log; starts with `not found: ` when the task or its log is
    /// not there.
    #[prost(string, tag = "5")]
    pub error: String,
    /// The rotated file's name, as `web.stdout.0`.
    #[prost(string, tag = "6")]
    pub file: String,
}

/// A frame that breaks the protocol.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`FRAME_BYTES_MAX`].
    #[error("a frame of {0} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// Not the protobuf message that was expected.
    #[error("decode frame: {0}")]
    Decode(#[from] prost::DecodeError),
}

/// Appends one frame to `out`.
pub fn encode_frame<M: Message>(message: &M, out: &mut BytesMut) {
    let len = message.encoded_len();
    out.reserve(4 + len);
    out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    message.encode(out).expect("a growing buffer has room");
}

/// Takes one frame from the front of `input`; none when it is not complete yet.
///
/// # Errors
/// When the frame is too long or not the message expected; the connection cannot be used any further.
pub fn decode_frame<M: Message + Default>(input: &mut BytesMut) -> Result<Option<M>, FrameError> {
    let Some(prefix) = input.first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_be_bytes(*prefix) as usize;
    if len > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(len));
    }
    if input.len() < 4 + len {
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(M::decode(input.split_to(len).freeze())?))
}

//! The protocol between an agent and a server: length-delimited protobuf, many node sessions on one connection.
//!
//! The agent dials. Each session opens with [`Hello`] and is answered by [`Welcome`] or [`Refused`]; from then on wishes
//! flow down as [`Desired`] and observations flow up as [`Update`]. Both sides prove with 16-byte digests that they
//! hold the same two states, so that a reconnect costs nothing when nothing changed.
//!
//! On the same session people reach tasks by way of the server: logs are read ([`FileRead`]), questions asked and orders
//! given ([`Ask`]), commands run within tasks ([`ExecStart`]). None of that outlives the connection.

mod ask;
mod digest;
mod exec;
mod frame;
mod observed;
mod session;
mod spec;
mod usage;

pub use ask::{
    Answer, Ask, AskAllocUsage, AskNodeUsage, Done, Outcome, Question, Refusal, RefusalKind, RestartTasks,
    SignalTasks,
};
pub use digest::{Digest, desired_hash, observed_hash};
pub use exec::{
    EXEC_PIECE_BYTES_MAX, EXEC_STDIN_BYTES_MAX, ExecCancel, ExecCredit, ExecDown, ExecExited, ExecInput,
    ExecNews, ExecOrder, ExecOutput, ExecStart, ExecStream, ExecUp, Inbox, Overrun, TerminalSize,
};
pub use frame::{
    Ack, Desired, Down, DownFrame, FRAME_BYTES_MAX, FileCancel, FileChunk, FileCredit, FileRead, FrameError,
    Heartbeat, HeartbeatEvery, Hello, Refused, RunAlloc, StopAlloc, Up, UpFrame, Update, Welcome,
    WelcomeMode, decode_frame, encode_frame,
};
pub use observed::{AllocStatus, ClientStatus, TaskEvent, TaskEventKind, TaskState, TaskStatus};
pub use session::{AgentSession, AllocId, Identity, Position, Told, UPDATE_BYTES_MAX, UPDATE_DELAY_NS};
pub use spec::{
    DeviceGrantSpec, DeviceInstanceSpec, DeviceSpec, GroupSpec, LogSpec, NodeSpec, PortBinding,
    RestartModeSpec, RestartSpec, TaskDevices, TaskSpec,
};
pub use usage::{
    AllocUsage, CoreUsage, CpuUsage, DiskUsage, MemoryUsage, NodeMemoryUsage, NodeUsage, TaskUsage,
};

/// The version of this protocol; a server refuses what it does not know by name.
pub const PROTOCOL_VERSION: u32 = 1;

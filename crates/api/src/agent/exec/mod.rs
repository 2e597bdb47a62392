//! Commands within tasks (`alloc exec`): the messages of both directions.
//!
//! A server opens one with [`ExecStart`] under a number of its own choice, and the agent ends it with [`ExecExited`] or a
//! [`Refusal`]. Each of the three streams has a window: whoever writes to it sends no more bytes than the reader has
//! allowed with [`ExecCredit`], so that a fast writer and a slow reader hold a bounded number of bytes between them.

mod inbox;

use bytes::Bytes;

use super::Refusal;
pub use inbox::{Inbox, Overrun};

/// The bytes of input that an agent holds for one command: its first credit.
pub const EXEC_STDIN_BYTES_MAX: usize = 64 << 10;

/// The most that one message carries of a stream, in bytes.
pub const EXEC_PIECE_BYTES_MAX: usize = 16 << 10;

/// From server to agent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecDown {
    /// Chosen by the server; unique among the session's commands.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// The message.
    #[prost(oneof = "ExecControl", tags = "2, 3, 4, 5, 6")]
    pub control: Option<ExecControl>,
}

/// What a server says of a command.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum ExecControl {
    /// Run it.
    #[prost(message, tag = "2")]
    Start(ExecStart),
    /// What it reads.
    #[prost(message, tag = "3")]
    Input(ExecInput),
    /// Its terminal has another size.
    #[prost(message, tag = "4")]
    Resize(TerminalSize),
    /// More of its output may be sent.
    #[prost(message, tag = "5")]
    Credit(ExecCredit),
    /// End it: nobody waits for it any more.
    #[prost(message, tag = "6")]
    Cancel(ExecCancel),
}

/// Run a command within a task.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecStart {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// The task's name.
    #[prost(string, tag = "2")]
    pub task: String,
    /// The program, and its arguments.
    #[prost(string, repeated, tag = "3")]
    pub command: Vec<String>,
    /// Give it a terminal: what it writes to standard error comes as standard output then.
    #[prost(bool, tag = "4")]
    pub tty: bool,
    /// How many bytes of each of standard output and standard error may be sent before an [`ExecCredit`].
    #[prost(uint64, tag = "5")]
    pub credit_bytes: u64,
}

/// What a command reads.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecInput {
    /// The bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
    /// Nothing follows.
    #[prost(bool, tag = "2")]
    pub close: bool,
}

/// How large a terminal is, in characters.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TerminalSize {
    /// Lines.
    #[prost(uint32, tag = "1")]
    pub rows: u32,
    /// Characters of a line.
    #[prost(uint32, tag = "2")]
    pub columns: u32,
}

/// End a command.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ExecCancel {}

/// From agent to server.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecUp {
    /// The command's number.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// The message.
    #[prost(oneof = "ExecEvent", tags = "2, 3, 4, 5")]
    pub event: Option<ExecEvent>,
}

/// What an agent says of a command.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum ExecEvent {
    /// What it wrote.
    #[prost(message, tag = "2")]
    Output(ExecOutput),
    /// More input may be sent.
    #[prost(message, tag = "3")]
    Credit(ExecCredit),
    /// It has ended, and all that it wrote has been sent.
    #[prost(message, tag = "4")]
    Exited(ExecExited),
    /// It never began, or cannot go on.
    #[prost(message, tag = "5")]
    Refused(Refusal),
}

/// One of a command's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ExecStream {
    /// What it reads.
    Stdin = 0,
    /// What it writes; all that a terminal shows.
    Stdout = 1,
    /// What it complains about.
    Stderr = 2,
}

/// What a command wrote.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecOutput {
    /// The number of the stream.
    #[prost(enumeration = "ExecStream", tag = "1")]
    pub stream: i32,
    /// The bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
}

/// Allows more of a stream to be sent.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ExecCredit {
    /// The number of the stream.
    #[prost(enumeration = "ExecStream", tag = "1")]
    pub stream: i32,
    /// How many bytes more.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
}

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ExecExited {
    /// Its exit code; 128 and the signal's number when one ended it.
    #[prost(int32, tag = "1")]
    pub exit_code: i32,
}

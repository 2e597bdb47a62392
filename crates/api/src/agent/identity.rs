//! Identity tokens of tasks. The agent requests them from the server that it is connected to when it prepares a task, and again
//! before they expire. Agents and tasks do not hold the signing keys.

use crate::secrets::debug_shows;

/// The most identities of one task, and of one answer.
pub const IDENTITIES_MAX: usize = 16;
/// The most bytes of one token.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// An identity of a task, as much of it as its agent needs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IdentitySpec {
    /// Unique in its task; `default` for the one that is given without a name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The task has its token in its environment.
    #[prost(bool, tag = "2")]
    pub env: bool,
    /// The file that holds its token, below the task's directory of secrets; empty for none.
    #[prost(string, tag = "3")]
    pub file: String,
    /// What happens to the task when its token is renewed.
    #[prost(enumeration = "IdentityChange", tag = "4")]
    pub change: i32,
    /// With [`IdentityChange::Signal`]: as `SIGHUP`.
    #[prost(string, tag = "5")]
    pub signal: String,
}

/// What happens to a task when one of its tokens is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum IdentityChange {
    /// Nothing: it reads the file again.
    Noop = 0,
    /// It is restarted, which its restart policy does not count.
    Restart = 1,
    /// It is sent a signal.
    Signal = 2,
}

/// Asks for tokens of a task.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct SignTokens {
    /// Chosen by the agent; unique among the session's requests.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// That of the node: a session says who it is before it has proved that.
    #[prost(bytes = "vec", tag = "2")]
    pub secret: Vec<u8>,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "3")]
    pub alloc_id: Vec<u8>,
    /// The task's name.
    #[prost(string, tag = "4")]
    pub task: String,
    /// Names of its identities, at most [`IDENTITIES_MAX`].
    #[prost(string, repeated, tag = "5")]
    pub identities: Vec<String>,
}

debug_shows!(SignTokens { request, alloc_id, task, identities });

/// Answers [`SignTokens`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignedTokens {
    /// The request's number.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// The requested ones, in that order; none where it was refused.
    #[prost(message, repeated, tag = "2")]
    pub tokens: Vec<SignedToken>,
    /// Why it was refused, for users.
    #[prost(string, tag = "3")]
    pub refused: String,
    /// Refused in a way that may pass: trying again can help.
    #[prost(bool, tag = "4")]
    pub retry: bool,
}

/// A token.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct SignedToken {
    /// The identity's name.
    #[prost(string, tag = "1")]
    pub identity: String,
    /// What is shown to others, of at most [`TOKEN_BYTES_MAX`] bytes.
    #[prost(string, tag = "2")]
    pub token: String,
    /// Milliseconds from now on until it expires: clocks differ.
    #[prost(uint64, tag = "3")]
    pub life_ms: u64,
}

debug_shows!(SignedToken { identity });

//! Secrets of tasks, read from variables. The agent requests them from the server that it is connected to when it starts a task.
//! The server decides by the job and by what the task's identity may read.

use std::collections::BTreeMap;

use crate::secrets::debug_shows;

/// The most secrets of one task.
pub const SECRETS_MAX: usize = 16;

/// A secret of a task, as much of it as its agent needs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SecretSpec {
    /// Unique in its task: its items are named `secret.NAME.ITEM`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The directory in which each item is a file, below the task's directory of secrets; empty for no files.
    #[prost(string, tag = "2")]
    pub files: String,
}

/// Asks for all secrets of a task.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct ReadSecrets {
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
}

debug_shows!(ReadSecrets { request, alloc_id, task });

/// Answers [`ReadSecrets`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SecretsRead {
    /// The request's number.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// All of the task's; none where it was refused.
    #[prost(message, repeated, tag = "2")]
    pub secrets: Vec<SecretItems>,
    /// Why it was refused, for users.
    #[prost(string, tag = "3")]
    pub refused: String,
    /// Refused in a way that may pass: trying again can help.
    #[prost(bool, tag = "4")]
    pub retry: bool,
    /// They were taken from the task: what it was given before is not to be used any more. Older servers never say so.
    #[prost(bool, tag = "5")]
    pub taken: bool,
}

/// What is in a secret.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct SecretItems {
    /// The secret's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// By their names.
    #[prost(btree_map = "string, string", tag = "2")]
    pub items: BTreeMap<String, String>,
}

debug_shows!(SecretItems { name });

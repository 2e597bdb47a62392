//! The metadata of a node: labels from the settings of its agent, and those that were set while it runs.

use std::collections::BTreeMap;

/// Keys and values of the dynamic metadata of a node, in bytes, at most.
pub const DYNAMIC_META_BYTES_MAX: usize = 64 << 10;

/// Which metadata does the node have?
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GetNodeMeta {}

/// Set and unset keys of the dynamic metadata; all of them or, if the agent refuses, none.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ChangeNodeMeta {
    /// By key, each once.
    #[prost(message, repeated, tag = "1")]
    pub changes: Vec<DynamicMeta>,
}

/// A key of the dynamic metadata.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DynamicMeta {
    /// As `rack`.
    #[prost(string, tag = "1")]
    pub key: String,
    /// None where the key is unset: then the node has no such key, though its settings give it a value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// Answers [`GetNodeMeta`] and [`ChangeNodeMeta`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeMeta {
    /// From the settings of the agent.
    #[prost(btree_map = "string, string", tag = "1")]
    pub configured: BTreeMap<String, String>,
    /// What was set or unset since, by key.
    #[prost(message, repeated, tag = "2")]
    pub dynamic: Vec<DynamicMeta>,
    /// What the node has of both: jobs see this.
    #[prost(btree_map = "string, string", tag = "3")]
    pub effective: BTreeMap<String, String>,
}

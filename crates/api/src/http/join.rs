//! How nodes join, and how they are cast out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;
use crate::secrets::debug_shows;

/// Asks for a token with which one agent joins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "NodeTokenAsked")]
pub struct NodeTokenRequest {
    /// The node that joins again with it; empty for one that is not there yet.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// How long it lasts, as `10m`; empty for ten minutes.
    #[serde(rename = "TTL")]
    pub ttl: String,
}

/// A token with which one agent joins.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeToken {
    /// What the agent is started with. It is given once.
    pub token: String,
    /// The only node that it is for; empty for one that is not there yet.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// From when on it is nothing any more.
    pub expires_at: Time,
    /// Where it was made.
    pub index: u64,
}

debug_shows!(NodeToken { node_id, expires_at, index });

/// A node was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeRevoked {
    /// The index.
    pub index: u64,
}

/// A server was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ServerRevoked {
    /// The index.
    pub index: u64,
    /// What that does not reach, and what to do; empty for nothing.
    pub warnings: String,
}

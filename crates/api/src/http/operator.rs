//! The servers, as their operators look at them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who takes part in the log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RaftConfiguration {
    /// All of them.
    pub servers: Vec<RaftServer>,
    /// Where this configuration was written; 0 for the first.
    pub index: u64,
}

/// A server that takes part in the log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RaftServer {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its name.
    pub node: String,
    /// Where it is reached.
    pub address: String,
    /// Whether it leads.
    pub leader: bool,
    /// Whether it votes.
    pub voter: bool,
    /// Always `3`, the version that clients know.
    pub raft_protocol: String,
}

/// What came of handing the leadership over. A server that is not known has empty fields.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct LeadershipTransferred {
    /// Who led.
    pub from: RaftServer,
    /// Who leads.
    pub to: RaftServer,
    /// Whether that one had led already.
    pub noop: bool,
}

/// How well the servers are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AutopilotHealth {
    /// Whether all are well.
    pub healthy: bool,
    /// How many may be lost before the log stands still.
    pub failure_tolerance: u32,
    /// All of them.
    pub servers: Vec<ServerHealth>,
    /// The leader's id.
    pub leader: String,
    /// Ids of those that vote.
    pub voters: Vec<String>,
}

/// How well one server is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ServerHealth {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub address: String,
    /// `alive`.
    pub serf_status: String,
    /// Berth's version.
    pub version: String,
    /// Whether it leads.
    pub leader: bool,
    /// Since it heard of the leader, as `0s`.
    pub last_contact: String,
    /// The term of its last record.
    pub last_term: u64,
    /// Its last record.
    pub last_index: u64,
    /// Whether it is well.
    pub healthy: bool,
    /// Whether it votes.
    pub voter: bool,
}

/// What came of a restored snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SnapshotRestored {
    /// The accessors of tokens that are good and were not there before, the first of them.
    pub tokens_returned: Vec<String>,
    /// How many of these there are.
    pub tokens_returned_count: u64,
    /// How many are in it that were revoked since, and stay so.
    pub tokens_still_revoked: u64,
}

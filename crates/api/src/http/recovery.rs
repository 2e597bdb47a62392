//! How far the servers know what runs, after a start or a change of leader.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a new leader knows the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RecoveryStatus {
    /// Whether there is a leader, all nodes that are up have confirmed what they run, and none is held.
    pub done: bool,
    /// Whether the server that answers knows a leader.
    pub known_leader: bool,
    /// Nodes that are up, as far as the servers know.
    pub nodes: u64,
    /// Those of them that have reported to this leader all that they run.
    pub confirmed: u64,
    /// Those that have not: what is said of them is what was known last.
    pub unconfirmed: u64,
    /// Those of these that have not been heard since this leader began.
    pub unheard: u64,
    /// Nanoseconds until nodes that are not heard may be declared lost; 0 once they may.
    pub grace_left: u64,
    /// Nodes that have been silent for too long and are not declared lost, since too many are silent at once.
    pub held: u64,
    /// The first of those, for who may read nodes.
    pub held_nodes: Vec<HeldNode>,
    /// Of a hundred nodes, how many may be declared lost at a time.
    pub lost_nodes_max_percent: u8,
}

/// A node that is silent, and not declared lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct HeldNode {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its name.
    pub name: String,
}

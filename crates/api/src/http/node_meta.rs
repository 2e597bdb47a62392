//! Metadata of a node, which operators read and change while its agent runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of a node's metadata to set and to unset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeMetaApply {
    /// The node's id, or its beginning; `node_id` in the query does the same.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// By key; null to unset it.
    pub meta: BTreeMap<String, Option<String>>,
}

/// The metadata of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeMetaRead {
    /// What jobs see: that of the settings, with the dynamic one above it.
    pub meta: BTreeMap<String, String>,
    /// What was set while an agent ran, and is kept by it; null for a key of the settings that is unset.
    pub dynamic: BTreeMap<String, Option<String>>,
    /// From the settings of the agent.
    #[serde(rename = "Static")]
    pub configured: BTreeMap<String, String>,
}

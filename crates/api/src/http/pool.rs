//! Node pools.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AclTtl;

/// A node pool. There is one of each name that a node gives or an operator describes, besides `default` and `all`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodePool {
    /// Letters, digits, dashes and underscores.
    pub name: String,
    /// In words, what it is.
    pub description: String,
    /// The operator's own labels.
    pub meta: Option<BTreeMap<String, String>>,
    /// Refused: how the nodes of a pool are used is set with the scheduler's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_configuration: Option<Value>,
    /// Refused unless it is what holds anyway: 24 hours, as a text or in nanoseconds.
    #[serde(rename = "NodeIdentityTTL", skip_serializing_if = "Option::is_none")]
    pub node_identity_ttl: Option<AclTtl>,
    /// The index at which it was described first; 0 for one that is only named.
    pub create_index: u64,
    /// The index at which it was described last.
    pub modify_index: u64,
}

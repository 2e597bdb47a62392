//! Node pools.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node pool. There is one of each name that a node gives, besides `default` and `all`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodePool {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Always empty.
    pub meta: BTreeMap<String, String>,
    /// Always 0: pools are not registered, they follow from their nodes.
    pub create_index: u64,
    /// Always 0.
    pub modify_index: u64,
}

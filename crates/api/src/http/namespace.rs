//! Namespaces.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Namespace {
    /// Its name: letters, digits, dashes and underscores.
    pub name: String,
    /// In words, what it is.
    pub description: String,
    /// The namespace above it; empty for one at the top.
    pub parent: String,
    /// How much more than its siblings it should get, 0.001 to 1000; 1 when not given.
    pub weight: f64,
    /// The quota that it and all below it keep to; empty for none.
    pub quota: String,
    /// What its jobs may do.
    pub capabilities: Option<NamespaceCapabilities>,
    /// The operator's own labels.
    pub meta: Option<BTreeMap<String, String>>,
    /// Where it was made; ignored in requests.
    pub create_index: u64,
    /// Where it last changed; ignored in requests.
    pub modify_index: u64,
}

impl Default for Namespace {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            parent: String::new(),
            weight: 1.0,
            quota: String::new(),
            capabilities: None,
            meta: None,
            create_index: 0,
            modify_index: 0,
        }
    }
}

/// What jobs of a namespace may do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespaceCapabilities {
    /// The only drivers that its tasks may use; none for any.
    pub enabled_task_drivers: Option<Vec<String>>,
    /// Drivers that its tasks may not use.
    pub disabled_task_drivers: Option<Vec<String>>,
}

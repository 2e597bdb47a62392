//! Node pools that operators describe. A pool is there as soon as a node or a job names it; describing one gives it words and labels.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::node::{NODE_POOL_ALL, NODE_POOL_DEFAULT};

/// A pool of nodes, as an operator described it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct NodePool {
    /// Letters, digits, dashes and underscores.
    #[n(0)]
    pub name: String,
    /// In words, what it is.
    #[n(1)]
    pub description: String,
    /// The operator's own labels.
    #[n(2)]
    pub meta: BTreeMap<String, String>,
}

/// Whether a pool is always there, so that nobody describes it or takes it away.
pub fn is_built_in_pool(name: &str) -> bool {
    [NODE_POOL_ALL, NODE_POOL_DEFAULT].contains(&name)
}

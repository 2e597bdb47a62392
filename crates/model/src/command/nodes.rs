//! Commands that concern nodes.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::{ids::NodeId, time::Timestamp};

/// A node is drained from now on, or no more.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DrainNode {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// How; none to call off what goes on.
    #[n(1)]
    pub drain: Option<NewDrain>,
    /// Without a drain: whether new work may come again.
    #[n(2)]
    pub eligible: bool,
    /// The operator's own labels of the drain.
    #[n(3)]
    pub meta: BTreeMap<String, String>,
}

/// How a node is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct NewDrain {
    /// What is still there then is stopped; none for as long as it takes.
    #[n(0)]
    pub deadline: Option<Timestamp>,
    /// Work that runs on every node stays.
    #[n(1)]
    pub ignore_system: bool,
    /// How long it may take, as it was asked for: nanoseconds, 0 for as long as it takes, less for at once.
    #[n(2)]
    pub requested_ns: i64,
}

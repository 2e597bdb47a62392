//! Scaling: who changed how many allocations a group wants, and why.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::{
    ids::{EvalId, Index},
    time::Timestamp,
    value::Value,
};

/// Scaling events that are kept of one group.
pub const SCALING_EVENTS_MAX: usize = 20;

/// A change of a group's count, or a message about it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ScalingEvent {
    /// The group's name.
    #[n(0)]
    pub group: String,
    /// What the count became; none for a message alone.
    #[n(1)]
    pub count: Option<u32>,
    /// What the count was; set by apply.
    #[n(2)]
    pub previous_count: u32,
    /// Whether the message reports an error.
    #[n(3)]
    pub error: bool,
    /// Why, for users.
    #[n(4)]
    pub message: String,
    /// The same for programs.
    #[n(5)]
    pub meta: BTreeMap<String, Value>,
    /// The evaluation that acts on it; none for a message alone.
    #[n(6)]
    pub eval: Option<EvalId>,
    /// When; set by apply.
    #[n(7)]
    pub at: Timestamp,
    /// Where; set by apply.
    #[n(8)]
    pub index: Index,
}

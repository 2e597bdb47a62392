//! Reschedule penalty: what failed on a node is rather tried elsewhere.

/// The score of the node on which the predecessor failed.
pub const RESCHEDULE_PENALTY: f64 = -1.0;

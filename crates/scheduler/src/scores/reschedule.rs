//! Reschedule penalty: what failed on a node is rather tried elsewhere.

/// The score of a node on which a predecessor failed.
pub const RESCHEDULE_PENALTY: f64 = -1.0;

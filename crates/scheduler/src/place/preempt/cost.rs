//! What it costs to preempt allocations.

/// The highest priority among them counts most, then how many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// The highest of them.
    pub priority: u8,
    /// Number of allocations.
    pub count: usize,
}

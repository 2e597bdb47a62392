//! Anti-affinity: allocations of one group rather lie on different nodes.

/// The score of a node that has `collisions` allocations of a group of `desired`; 0 does not count.
pub fn anti_affinity(collisions: u32, desired: u32) -> f64 {
    if collisions == 0 { 0.0 } else { -f64::from(collisions + 1) / f64::from(desired.max(1)) }
}

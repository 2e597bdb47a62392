//! The scheduler's decisions on one processor, without a server around them: what a planner thread of the server calls. Nowhere else
//! may the lab use the server's parts.

mod allocation_cycle;
mod cluster;
mod density;
pub mod packing;

pub(crate) use allocation_cycle::{CycleShape, allocation_cycle};
pub(crate) use density::density;

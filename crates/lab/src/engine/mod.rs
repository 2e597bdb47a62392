//! Decisions without a server around them, on one processor: what a planner thread of the server calls. Only here may
//! the lab look into the server's parts.

mod allocation_cycle;
mod cluster;
mod density;
pub mod packing;

pub(crate) use allocation_cycle::{CycleShape, allocation_cycle};
pub(crate) use density::density;

//! The keeper.
pub mod plan;

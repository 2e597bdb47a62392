//! Familiar one-liners: `berth run`, `berth ps`, `berth logs`.

pub mod logs;
pub mod ps;
pub mod run;
mod spec;
mod wait;

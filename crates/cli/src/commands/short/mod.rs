//! Short commands: `berth run`, `berth ps`, `berth logs`, `berth exec`.

mod containers;
pub mod exec;
pub mod logs;
pub mod ps;
pub mod run;
mod spec;
mod wait;

//! The lifecycle of a node's allocations: an event and the time go in, actions come out.
//!
//! There is no clock, no IO and no randomness in here; a lab process holds tens of thousands of [`Node`]s. Whoever drives
//! one executes the actions in order, feeds back what came of them, and sends [`Event::Tick`] at [`Node::deadline`].
#![warn(clippy::iter_over_hash_type)]

mod alloc;
mod checks;
mod desired;
mod event;
mod history;
mod node;
mod pending;
mod record;
mod restart;
mod task;
mod task_commands;
#[cfg(test)]
mod tests;

pub use alloc::Alloc;
pub use checks::{CHECKS_MAX, OUTPUT_BYTES_MAX};
pub use desired::{DesiredError, GroupCache, RunSpec, events_of};
pub use event::{
    Action, CheckRef, CheckResult, Event, Exit, FoundTask, StartFailure, StartFailureKind, TaskRef,
};
pub use history::{EVENTS_MAX, MESSAGE_BYTES_MAX};
pub use node::{FORGOTTEN_MAX, Node};
pub use record::{AllocRecord, RunRecord, TaskRecord};
pub use task::KILL_TIMEOUT_MS_MAX;

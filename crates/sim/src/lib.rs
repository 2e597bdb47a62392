//! Deterministic simulation: the real log, controller, planners and agents' life cycles on one thread with a clock of its
//! own, a network and disks that fail, and rules that are checked after every step. All of it follows from one seed.
//!
//! - `executor` polls tasks in an order drawn from the seed; `network`, [`bugs`] and `disk` are what goes wrong.
//! - `server` and `node` do what a server and an agent do around their pure parts.
//! - `invariants` holds the rules, a file each; `truth` is what they look at.
//! - [`coverage`] counts the states of jobs' lives that were met with.
//! - [`world`] runs one simulation.

pub mod bugs;
pub mod coverage;
mod disk;
mod executor;
mod faults;
mod invariants;
pub mod many;
mod network;
mod node;
mod operations;
mod random;
mod server;
mod servers;
mod truth;
mod workload;
pub mod world;

pub use truth::{Counts, Violation};

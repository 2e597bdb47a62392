//! Agents' connections: each carries the sessions of one node, or of many.

mod asked;
mod asks;
mod connection;
mod encode;
mod enroll;
mod execs;
mod files;
mod incoming;
mod leaving;
mod limits;
mod line;
mod listen;
mod outbound;
mod outline;
mod pending;
mod recorded;
mod registry;
mod revoked;
mod rooms;
mod secrets;
mod specs;
mod task_api;
mod watches;

pub(crate) use encode::frame;
pub use encode::frames;
pub(crate) use incoming::Share;
pub use limits::AgentLimits;
pub(crate) use listen::{Context, listen};
pub(crate) use outbound::{Gone, Outbound};
pub(crate) use pending::Pending;
pub(crate) use registry::Registry;
pub use specs::GroupSpecs;

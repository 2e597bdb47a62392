//! Agents' connections: each carries the sessions of one node, or of many.

mod asks;
mod connection;
mod execs;
mod files;
mod listen;
mod outgoing;
mod pending;
mod registry;

pub(crate) use listen::{Context, listen};
pub(crate) use outgoing::Outgoing;
pub(crate) use pending::Pending;
pub(crate) use registry::Registry;

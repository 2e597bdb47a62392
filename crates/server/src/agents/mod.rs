//! Agents' connections: each carries the sessions of one node, or of many.

mod connection;
mod files;
mod listen;
mod outgoing;
mod registry;

pub(crate) use files::FileReads;
pub(crate) use listen::{Context, listen};
pub(crate) use outgoing::Outgoing;
pub(crate) use registry::Registry;

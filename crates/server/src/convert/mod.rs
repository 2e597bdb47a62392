//! Between the model and the protocols that clients and agents speak: one module for each protocol.

pub(crate) mod agent;
pub(crate) mod nomad;

//! Conversions between the model and the agents' protocol. Nomad's API has its own, in [`crate::nomad`].

pub(crate) mod agent;
mod checks;
pub(crate) mod desired;
pub(crate) mod value;

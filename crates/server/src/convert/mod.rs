//! Between the model and the protocol that agents speak. Nomad's API has its own conversions, in [`crate::nomad`].

pub(crate) mod agent;
mod checks;
pub(crate) mod value;

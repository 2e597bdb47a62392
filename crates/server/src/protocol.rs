//! The server's side of the agents' protocol, for the simulator, which has no sockets: messages of agents as inputs of the
//! controller, and messages of the controller as frames.

pub use crate::{
    agents::{GroupSpecs, frames},
    convert::agent::{heartbeat, hello, node_changed, observed},
};

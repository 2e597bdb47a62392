//! The agents' protocol on the side of a server, for whoever plays one without sockets: what agents say as the controller
//! takes it in, and what the controller says as frames.

pub use crate::{
    agents::{GroupSpecs, frames},
    convert::agent::{heartbeat, hello, node_changed, observed},
};

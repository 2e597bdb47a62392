//! The way between servers, without sockets: whoever owns them gives channels of frames, and takes those that others
//! have opened.
//!
//! - [`Dial`] opens a [`PeerChannel`] to another server; the server implements it over TCP, a simulation in memory.
//! - [`Peers`] knows all others: it greets them, asks them, and serves the connections that they open. What is urgent goes
//!   first on a connection, so that a snapshot holds up no heartbeat.
//! - `consensus` is what the consensus engines say to each other; [`Service`] is what the servers above do.
//! - Nothing here waits by a clock or spawns a task but through the runtime that the consensus engine runs on.

pub(crate) mod conn;
pub(crate) mod consensus;
pub(crate) mod frame;
pub(crate) mod greeting;
mod lanes;
pub(crate) mod link;
mod peers;
mod port;
pub(crate) mod versions;

pub use peers::{PeerIdentity, Peers, REQUEST_BYTES_MAX, RequestError, Service};
pub use port::{Dial, FRAME_BYTES_MAX, FrameSink, FrameStream, PeerAddress, PeerChannel, Vouch};

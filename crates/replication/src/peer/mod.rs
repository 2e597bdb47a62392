//! The way between servers, without sockets: whoever owns them gives channels of frames, and takes those that others
//! have opened.
//!
//! - [`Dial`] opens a [`Channel`] to another server; the server implements it over TCP, a simulation in memory.
//! - Nothing here waits by a clock or spawns a task but through the runtime that the consensus engine runs on.

mod port;

pub use port::{Channel, Dial, FRAME_BYTES_MAX, FrameSink, FrameStream, PeerAddress};

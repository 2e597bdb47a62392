//! The port to other servers: ordered channels of bounded frames. What carries them is not known here.

use std::{fmt, io, pin::Pin, sync::Arc};

use bytes::Bytes;
use futures_util::{Sink, Stream, future::BoxFuture};

/// Bytes of a frame, at most: space for an entry of the log and what goes with it, and little enough that a heartbeat
/// behind one is not late. A channel refuses to send more and ends when more arrives.
pub const FRAME_BYTES_MAX: usize = 4 << 20;

/// Where a server listens to other servers: host and port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PeerAddress(pub String);

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for PeerAddress {
    fn from(address: &str) -> Self {
        Self(address.to_owned())
    }
}

/// Frames to the other side, in order.
pub type FrameSink = Pin<Box<dyn Sink<Bytes, Error = io::Error> + Send>>;
/// Frames from the other side, in order; its end is the channel's, an error is its last item.
pub type FrameStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Says whether whoever is at the other end may speak as the server of an id; why not, for users.
pub type Vouch = Arc<dyn Fn(u64) -> Result<(), String> + Send + Sync>;

/// A connection to another server: frames of 1 to [`FRAME_BYTES_MAX`] bytes arrive whole, in order and once, or the
/// channel ends. Dropping both halves closes it.
pub struct PeerChannel {
    /// To the other side. What it has taken is sent once it is flushed, or earlier.
    pub outgoing: FrameSink,
    /// From the other side.
    pub incoming: FrameStream,
    /// Asked once the other side has said which server it is; none where whatever it says is believed.
    pub vouch: Option<Vouch>,
}

impl PeerChannel {
    /// A channel of these halves.
    pub fn new(
        outgoing: impl Sink<Bytes, Error = io::Error> + Send + 'static,
        incoming: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Self {
        Self { outgoing: Box::pin(outgoing), incoming: Box::pin(incoming), vouch: None }
    }

    /// Whether the other side may speak as this server.
    ///
    /// # Errors
    /// Why not, for the users on both sides.
    pub(crate) fn vouch(&self, server: u64) -> Result<(), String> {
        self.vouch.as_ref().map_or(Ok(()), |vouch| vouch(server))
    }
}

impl fmt::Debug for PeerChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel")
    }
}

/// Opens channels to other servers.
pub trait Dial: Send + Sync + 'static {
    /// Opens a channel to whoever listens there; it says who it is in the channel's first frame. Whoever asks waits no
    /// longer than it likes, and drops the future then.
    ///
    /// # Errors
    /// When nobody listens there, or nothing is heard; of the kind [`io::ErrorKind::PermissionDenied`] when one side does not
    /// accept what the other has shown, as an error of the channel's first frame may be.
    fn dial(&self, to: &PeerAddress) -> BoxFuture<'static, io::Result<PeerChannel>>;
}

//! The ways between simulated servers: what the replicated log needs of a network, over the simulated one.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use berth_replication::{
    Peer,
    peer::{Dial, PeerAddress, PeerChannel},
};
use bytes::Bytes;
use futures_util::{Sink, future::BoxFuture, stream};

use crate::network::{ConnectionEnd, Host, Network};

/// Between the ids of a server and that of the one that takes its place: more than there are servers.
const GENERATION: u64 = 10;

/// The id of a server, counted from 0, that was set up again so often: who was removed never comes back under its old id.
pub fn id(number: usize, generation: u64) -> u64 {
    number as u64 + 1 + generation * GENERATION
}

/// Which server has an id, counted from 0.
pub fn number(id: u64) -> usize {
    ((id - 1) % GENERATION) as usize
}

/// How a server, counted from 0, is known to the others.
pub fn peer(number: usize) -> Peer {
    Peer { address: address(number).0, name: format!("server-{}", number + 1), ..Peer::default() }
}

/// Where a server, counted from 0, listens to the others.
pub fn address(number: usize) -> PeerAddress {
    PeerAddress(number.to_string())
}

/// One server's way to the others.
pub struct Wire {
    /// The network.
    pub network: Network,
    /// The server that dials.
    pub own: Host,
}

impl Dial for Wire {
    fn dial(&self, to: &PeerAddress) -> BoxFuture<'static, io::Result<PeerChannel>> {
        let number = to.0.parse().map_err(|_| io::Error::other(format!("{to} is no server")));
        let dialed = number.and_then(|number| self.network.dial(self.own, Host::Server(number)));
        Box::pin(std::future::ready(dialed.map(channel)))
    }
}

/// A connection as the replicated log uses it.
pub fn channel(end: ConnectionEnd) -> PeerChannel {
    let end = Arc::new(end);
    let incoming = stream::unfold(end.clone(), |end| async move {
        let frame = end.recv().await?;
        Some((Ok(frame), end))
    });
    PeerChannel::new(OutgoingFrames(end), incoming)
}

/// Sends at once: what is on its way is bounded by the network.
struct OutgoingFrames(Arc<ConnectionEnd>);

impl Sink<Bytes> for OutgoingFrames {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, frame: Bytes) -> io::Result<()> {
        self.0.send(frame)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

//! Accepts connections at a port: plain, or after a TLS handshake. A peer that is silent during one holds a bounded number of
//! bytes for a bounded time, and no more of them than its address may have.

use std::{io, net::SocketAddr, sync::Arc};

use berth_tls::{Acceptor, HANDSHAKE_MAX, PortKind};
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::Semaphore, time::timeout};

use super::{AddressLimit, NetStream, PerAddress};

/// Handshakes under way at a port; those beyond wait for their turn.
const HANDSHAKES_MAX: usize = 2_048;
/// The same at the port for agents, to which all of them may come at once.
const AGENT_HANDSHAKES_MAX: usize = 4_096;
/// How many of an address there may be at the port for agents, before which those beyond stand in a line: as many as it may begin in a
/// quarter of a second, so that agents who are far away are no slower than that.
pub(crate) const AGENT_HANDSHAKES_OF_ADDRESS: AddressLimit =
    AddressLimit { per_address_max: 512, loopback_max: 3_072 };
/// Of those at other ports, how many one address may have, waiting or not.
const HANDSHAKES_OF_ADDRESS: AddressLimit = AddressLimit { per_address_max: 256, loopback_max: 1_536 };

/// The response to a plain HTTP request at a TLS port.
const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 67\r\n\
    connection: close\r\n\r\n\
    this port speaks TLS: use an address that begins with https:// here";

/// How connections come in at a port. Cheap to clone; clones share their limits.
#[derive(Clone, Default)]
pub struct PortAcceptor(Option<Arc<HandshakeGuard>>);

struct HandshakeGuard {
    acceptor: Acceptor,
    kind: PortKind,
    under_way: Semaphore,
    addresses: PerAddress,
    share: AddressLimit,
}

impl PortAcceptor {
    /// Connections come in as they are.
    pub fn open() -> Self {
        Self(None)
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.0.is_some()
    }

    /// Each connection shakes hands first.
    pub fn guarded(acceptor: Acceptor, kind: PortKind) -> Self {
        let (most, share) = match kind {
            PortKind::Agents => (AGENT_HANDSHAKES_MAX, AGENT_HANDSHAKES_OF_ADDRESS),
            _ => (HANDSHAKES_MAX, HANDSHAKES_OF_ADDRESS),
        };
        let (under_way, addresses) = (Semaphore::new(most), PerAddress::default());
        Self(Some(Arc::new(HandshakeGuard { acceptor, kind, under_way, addresses, share })))
    }

    /// Whether connections are as they are, so that words can be sent to one before it has come in.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Takes a connection in. It may take as long as a handshake does: nobody else may wait for it.
    pub(crate) async fn enter(&self, stream: TcpStream, from: SocketAddr) -> io::Result<NetStream> {
        match &self.0 {
            None => Ok(NetStream::plain(stream, from)),
            Some(guard) => {
                let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
                timeout(HANDSHAKE_MAX, guard.shake_hands(stream, from)).await.map_err(late)?
            }
        }
    }
}

impl HandshakeGuard {
    async fn shake_hands(&self, stream: TcpStream, from: SocketAddr) -> io::Result<NetStream> {
        let Some(_counted) = self.addresses.count(from.ip(), self.share) else {
            return Err(io::Error::other("its address has too many handshakes under way"));
        };
        let _turn = self.under_way.acquire().await.map_err(io::Error::other)?;
        stream.set_nodelay(true)?;
        match self.acceptor.accept(self.kind, stream).await {
            Ok(accepted) => Ok(NetStream::encrypted(accepted, from)),
            Err(refused) => {
                if let Some(mut stream) = refused.not_tls {
                    stream.write_all(NOT_TLS).await?;
                }
                let words = berth_tls::explain(&refused.error);
                Err(words.map_or(refused.error, io::Error::other))
            }
        }
    }
}

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
/// Handshakes of one address at the port for agents; those beyond wait in its queue. As many as an address may begin in a quarter of a
/// second, so that long round trips do not slow its agents down.
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
    /// Accepts connections without TLS.
    pub fn open() -> Self {
        Self(None)
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.0.is_some()
    }

    /// Accepts connections after a TLS handshake.
    pub fn guarded(acceptor: Acceptor, kind: PortKind) -> Self {
        let (most, share) = match kind {
            PortKind::Agents => (AGENT_HANDSHAKES_MAX, AGENT_HANDSHAKES_OF_ADDRESS),
            _ => (HANDSHAKES_MAX, HANDSHAKES_OF_ADDRESS),
        };
        let (under_way, addresses) = (Semaphore::new(most), PerAddress::default());
        Self(Some(Arc::new(HandshakeGuard { acceptor, kind, under_way, addresses, share })))
    }

    /// Whether connections are not encrypted, so that text can be sent to one that is refused.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Accepts a connection. Takes as long as a handshake: no other connection may wait for this.
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
        let Some(_guard) = self.addresses.count(from.ip(), self.share) else {
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
                let explanation = berth_tls::explain(&refused.error);
                Err(explanation.map_or(refused.error, io::Error::other))
            }
        }
    }
}

//! How connections come in at a port: as they are, or after a handshake. Whoever is silent in the middle of one holds a bounded
//! number of bytes for a bounded time, and no more of them than its address may have.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use berth_tls::{Acceptor, HANDSHAKE_MAX, PortKind};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{PerAddress, Share, Stream, host};

/// Handshakes under way at a port; those beyond wait for their turn.
const HANDSHAKES_MAX: usize = 2_048;
/// Of these, how many one address may have, waiting or not. At the port for agents, where a network of them behind one address comes
/// all at once, those beyond wait for their turn, too; how many connections an address has is bounded there.
const ADDRESS_SHARE: Share = Share { per_address_max: 256, loopback_max: 1_536 };

/// The answer to who asks without TLS where there is TLS.
const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 67\r\n\
    connection: close\r\n\r\n\
    this port speaks TLS: use an address that begins with https:// here";

/// How connections come in at a port. Cheap to clone; clones share their limits.
#[derive(Clone, Default)]
pub struct Entrance(Option<Arc<Guard>>);

struct Guard {
    acceptor: Acceptor,
    kind: PortKind,
    under_way: Semaphore,
    addresses: PerAddress,
    turns: Turns,
}

impl Entrance {
    /// Connections come in as they are.
    pub fn open() -> Self {
        Self(None)
    }

    /// Each connection shakes hands first.
    pub fn guarded(acceptor: Acceptor, kind: PortKind) -> Self {
        let (under_way, addresses) = (Semaphore::new(HANDSHAKES_MAX), PerAddress::default());
        let turns = Turns::default();
        Self(Some(Arc::new(Guard { acceptor, kind, under_way, addresses, turns })))
    }

    /// Whether connections are as they are, so that words can be sent to one before it has come in.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Takes a connection in. It may take as long as a handshake does: nobody else may wait for it.
    pub(crate) async fn enter(&self, stream: TcpStream, from: SocketAddr) -> io::Result<Stream> {
        match &self.0 {
            None => Ok(Stream::plain(stream, from)),
            Some(guard) => {
                let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
                let _turn = match guard.kind {
                    PortKind::Agents => {
                        Some(timeout(HANDSHAKE_MAX, guard.turns.wait(from.ip())).await.map_err(late)?)
                    }
                    _ => None,
                };
                timeout(HANDSHAKE_MAX, guard.shake_hands(stream, from)).await.map_err(late)?
            }
        }
    }
}

impl Guard {
    async fn shake_hands(&self, stream: TcpStream, from: SocketAddr) -> io::Result<Stream> {
        let Some(_counted) = self.addresses.count(from.ip(), ADDRESS_SHARE) else {
            return Err(io::Error::other("its address has too many handshakes under way"));
        };
        let _turn = self.under_way.acquire().await.map_err(io::Error::other)?;
        stream.set_nodelay(true)?;
        match self.acceptor.accept(self.kind, stream).await {
            Ok(accepted) => Ok(Stream::encrypted(accepted, from)),
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

/// Who is next of each address: first come, first served. Addresses without anybody take no room for long.
#[derive(Debug, Default)]
struct Turns(Mutex<HashMap<IpAddr, Weak<Semaphore>>>);

/// A number of addresses from which on those are looked for of which nobody is there any more.
const TURNS_SWEPT: usize = 1_024;

impl Turns {
    /// Waits for a turn, which lasts as long as what is returned.
    async fn wait(&self, address: IpAddr) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        self.of(address).acquire_owned().await.ok()
    }

    fn of(&self, address: IpAddr) -> Arc<Semaphore> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= TURNS_SWEPT {
            turns.retain(|_, of_address| of_address.strong_count() > 0);
        }
        let of_address = turns.entry(host(address)).or_default();
        of_address.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Semaphore::new(ADDRESS_SHARE.of(address)));
            *of_address = Arc::downgrade(&new);
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_is_beyond_the_share_of_an_address_waits_and_holds_up_no_other_address() {
        let turns = Turns::default();
        let address = |host| IpAddr::from([10, 0, 0, host]);
        let mut taken = Vec::new();
        for _ in 0..ADDRESS_SHARE.per_address_max {
            taken.push(turns.wait(address(1)).await);
        }
        let mut next = std::pin::pin!(turns.wait(address(1)));
        assert!(futures_util::poll!(&mut next).is_pending());
        assert!(turns.wait(address(2)).await.is_some());
        taken.pop();
        assert!(next.await.is_some());
        taken.clear();
        for number in 0..2 * TURNS_SWEPT as u32 {
            turns.wait(IpAddr::from(number.to_be_bytes())).await;
        }
        assert!(turns.0.lock().unwrap().len() <= TURNS_SWEPT, "those that are gone take no room");
    }
}

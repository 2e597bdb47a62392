//! Proxies between servers, one in front of each: for each direction between two servers, bytes are passed on, withheld, damaged or
//! delivered one by one. Servers are told apart by the loopback address that they dial from.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
};

/// Between two looks whether a link is still cut.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Between two bytes of a link on which they come one by one.
const TRICKLE: Duration = Duration::from_millis(2);
/// Of so many pieces that a damaged link carries, one is damaged.
const GARBLED_EACH: usize = 4;

/// What is wrong with what one server says to another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkFault {
    Swallowed,
    Garbled,
    Trickled,
}

/// The links that are not well: from one server to another.
#[derive(Clone, Default)]
pub struct Links(Arc<Mutex<BTreeMap<(u8, u8), LinkFault>>>);

impl Links {
    /// Nothing of `from` reaches `to` any more. Nobody is told: it is as if the network swallowed it.
    pub fn cut(&self, from: u8, to: u8) {
        self.begin(from, to, LinkFault::Swallowed);
    }

    /// A bit flips now and then in what `from` says to `to`.
    pub fn garble(&self, from: u8, to: u8) {
        self.begin(from, to, LinkFault::Garbled);
    }

    /// What `from` says to `to` comes one byte at a time.
    pub fn trickle(&self, from: u8, to: u8) {
        self.begin(from, to, LinkFault::Trickled);
    }

    fn begin(&self, from: u8, to: u8, fault: LinkFault) {
        self.0.lock().unwrap().insert((from, to), fault);
    }

    /// Nothing reaches a server, and it reaches nobody.
    pub fn isolate(&self, server: u8, others: impl IntoIterator<Item = u8>) {
        for other in others.into_iter().filter(|other| *other != server) {
            self.cut(server, other);
            self.cut(other, server);
        }
    }

    /// All is as before.
    pub fn heal(&self) {
        self.0.lock().unwrap().clear();
    }

    fn fault(&self, from: u8, to: u8) -> Option<LinkFault> {
        self.0.lock().unwrap().get(&(from, to)).copied()
    }

    fn is_cut(&self, from: u8, to: u8) -> bool {
        self.fault(from, to) == Some(LinkFault::Swallowed)
    }

    /// Lets others reach server `to`, which listens at `target`, at the address that is returned.
    pub async fn proxy(&self, to: u8, target: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let links = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                tokio::spawn(links.clone().carry(stream, number(peer.ip()), to, target));
            }
        });
        address
    }

    async fn carry(self, stream: TcpStream, from: u8, to: u8, target: SocketAddr) {
        while self.is_cut(from, to) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let socket = TcpSocket::new_v4().expect("a socket");
        let Ok(there) = socket.connect(target).await else { return };
        let _ = (stream.set_nodelay(true), there.set_nodelay(true));
        let (from_here, to_here) = stream.into_split();
        let (from_there, to_there) = there.into_split();
        tokio::select! {
            () = self.copy(from_here, to_there, from, to) => {}
            () = self.copy(from_there, to_here, to, from) => {}
        }
    }

    async fn copy(
        &self,
        mut reader: impl AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
        from: u8,
        to: u8,
    ) {
        let mut buffer = vec![0; 64 << 10];
        for piece in 1.. {
            let Ok(read @ 1..) = reader.read(&mut buffer).await else { return };
            while self.is_cut(from, to) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            if self.fault(from, to) == Some(LinkFault::Garbled) && piece % GARBLED_EACH == 0 {
                // Any place of a frame, as the pieces come.
                buffer[piece * 31 % read] ^= 1 << (piece / GARBLED_EACH % 8);
            }
            if self.carry_on(&buffer[..read], &mut writer, from, to).await.is_err() {
                return;
            }
        }
    }

    /// Byte by byte for as long as the link is so.
    async fn carry_on(
        &self,
        mut bytes: &[u8],
        writer: &mut (impl AsyncWrite + Unpin),
        from: u8,
        to: u8,
    ) -> std::io::Result<()> {
        while let Some((first, rest)) = bytes.split_first()
            && self.fault(from, to) == Some(LinkFault::Trickled)
        {
            writer.write_all(&[*first]).await?;
            bytes = rest;
            tokio::time::sleep(TRICKLE).await;
        }
        writer.write_all(bytes).await
    }
}

/// The number of the server at a loopback address.
fn number(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(_) => 0,
    }
}

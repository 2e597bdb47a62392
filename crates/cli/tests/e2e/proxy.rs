//! What lies between servers in tests: each is reached through a proxy, which lets bytes of one server to another through
//! or keeps them, in either direction by itself. Servers are told apart by the loopback address from which they dial.

use std::{
    collections::BTreeSet,
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

/// The links that are cut: from one server to another.
#[derive(Clone, Default)]
pub struct Links(Arc<Mutex<BTreeSet<(u8, u8)>>>);

impl Links {
    /// Nothing of `from` reaches `to` any more. Nobody is told: it is as if the network swallowed it.
    pub fn cut(&self, from: u8, to: u8) {
        self.0.lock().unwrap().insert((from, to));
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

    fn is_cut(&self, from: u8, to: u8) -> bool {
        self.0.lock().unwrap().contains(&(from, to))
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
        loop {
            let Ok(read) = reader.read(&mut buffer).await else { return };
            while self.is_cut(from, to) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            if read == 0 || writer.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    }
}

/// The number of the server at a loopback address.
fn number(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(_) => 0,
    }
}

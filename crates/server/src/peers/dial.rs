//! Opens connections to other servers.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use berth_replication::peer::{Dial, PeerAddress, PeerChannel};
use futures_util::future::BoxFuture;
use tokio::net::{TcpSocket, TcpStream, lookup_host};

use super::PeerCertificates;
use crate::net::NetStream;

/// Dials by TCP from the address at which this server listens, so that firewalls between servers can go by it.
pub(crate) struct TcpDial {
    pub from: IpAddr,
    /// Its own certificates and those of others; without any, connections are not encrypted.
    pub certificates: Arc<PeerCertificates>,
}

impl Dial for TcpDial {
    fn dial(&self, to: &PeerAddress) -> BoxFuture<'static, io::Result<PeerChannel>> {
        let (to, from, certificates) = (to.0.clone(), self.from, self.certificates.clone());
        Box::pin(async move {
            let secure = certificates.secure();
            let (stream, address) = connect(from, &to, secure.is_none()).await?;
            let stream = match secure {
                Some(secure) => secure.dialed(stream, address, &to).await.map_err(super::explain)?,
                None => NetStream::plain(stream, address),
            };
            super::channel(stream, &certificates)
        })
    }
}

/// Connects to the first address of a name that accepts; names are looked up at each attempt. With `stays_here`, only loopback
/// addresses are dialed, as the connection is not encrypted.
async fn connect(from: IpAddr, to: &str, stays_here: bool) -> io::Result<(TcpStream, SocketAddr)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{to} has no address"));
    for address in lookup_host(to).await? {
        if stays_here && !address.ip().is_loopback() {
            let why = "beyond loopback, connections between servers need TLS: `berth server init` makes certificates";
            last = io::Error::new(io::ErrorKind::Unsupported, why);
            continue;
        }
        match connect_to(from, address).await {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_to(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if from.is_ipv4() == to.is_ipv4() && !from.is_unspecified() {
        socket.bind(SocketAddr::new(from, 0))?;
    }
    socket.connect(to).await
}

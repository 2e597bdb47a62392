//! Dials servers for simulated nodes.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use berth_tls::{Connector, ExpectedPeer, RevokedServers, Stream, TlsCredentials, TlsFiles};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use super::{NodesConfig, SettingError, connections::SharedConnections};

/// As long as an agent waits for a server to answer its dialing.
const DIAL_MAX: Duration = Duration::from_secs(5);
/// The first of the addresses that connections come from, where each has a share of them.
const ADDRESS_FIRST: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);

/// Dials servers.
pub(super) struct Dialer {
    /// None without TLS.
    connector: Option<Connector>,
    /// None for the address that the system chooses.
    from: Option<Ipv4Addr>,
    shared_connections: Arc<SharedConnections>,
}

impl Dialer {
    /// As all nodes do.
    pub fn new(
        config: &NodesConfig,
        shared_connections: Arc<SharedConnections>,
    ) -> Result<Self, SettingError> {
        let connector = config.tls.as_ref().map(connector).transpose()?;
        Ok(Self { connector, from: None, shared_connections })
    }

    /// The same for the connection of this number, whose sessions of TLS are its own.
    pub fn numbered(&self, config: &NodesConfig, number: u32) -> Self {
        let address = number.checked_div(config.per_address);
        Self {
            connector: self.connector.as_ref().map(Connector::sibling),
            from: address.map(|address| (u32::from(ADDRESS_FIRST) + address).into()),
            shared_connections: self.shared_connections.clone(),
        }
    }

    /// Dials a server, as `HOST:PORT`, and shakes hands, which it may be silent to for as long as `patience`.
    pub async fn dial(&self, server: &str, patience: Duration) -> io::Result<Stream> {
        let stream = timeout(DIAL_MAX.min(patience), self.connect(server)).await??;
        stream.set_nodelay(true)?;
        let Some(connector) = &self.connector else { return Ok(Stream::Plain(stream)) };
        let shaken = timeout(patience, connector.connect(stream, server)).await?;
        let stream = shaken.map_err(|error| berth_tls::explain(&error).map_or(error, io::Error::other))?;
        if stream.is_resumed() {
            self.shared_connections.resume();
        }
        Ok(stream)
    }

    async fn connect(&self, server: &str) -> io::Result<TcpStream> {
        let Some(from) = self.from else { return TcpStream::connect(server).await };
        let server: SocketAddr = server.parse().map_err(io::Error::other)?;
        let socket = TcpSocket::new_v4()?;
        // The system looks for a port once it knows where to. Otherwise thousands of connections of one address make it look for
        // long, and find none while those of earlier connections are not free again.
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        socket.bind((from, 0).into())?;
        socket.connect(server).await
    }
}

fn connector(files: &TlsFiles) -> Result<Connector, SettingError> {
    let wrong = |why: String| SettingError(why);
    let credentials = TlsCredentials::load(files).map_err(|error| wrong(error.to_string()))?;
    let identity = credentials.identity();
    let region = identity.region().filter(|region| identity.is_agent(Some(region)));
    let region =
        region.ok_or_else(|| wrong(format!("{} names {identity}, and no agent", files.cert.display())))?;
    let (expected, revoked) = (ExpectedPeer::Server(region.to_owned()), RevokedServers::default());
    Connector::new(&credentials, expected, &revoked).map_err(|error| wrong(error.to_string()))
}

//! The TLS state of a running server: what its ports require, what it shows when it dials, and the replacement of both.

use std::{fmt, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use berth_tls::{
    Acceptor, Authority, CertificateDer, Connector, ExpectedPeer, HANDSHAKE_MAX, Peer, PortKind,
    RevokedServers, TlsCredentials, TlsError, TlsFiles,
};
use tokio::{net::TcpStream, time::timeout};

use super::{NetStream, PortAcceptor};

/// Certificates of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Its own certificate, and the authorities that it trusts.
    pub files: TlsFiles,
    /// The key of one of these authorities, for servers that give agents their certificates.
    pub ca_key: Option<PathBuf>,
    /// Whether the HTTP API is encrypted too.
    pub http: bool,
    /// Whether clients of the HTTP API must show certificates.
    pub verify_https_client: bool,
    /// How long a certificate is valid that an agent gets.
    pub agent_life: Duration,
}

/// What a running server does with its certificates.
pub(crate) struct Secure {
    config: TlsConfig,
    /// The server's name; none for whoever is no server of the cluster.
    name: Option<String>,
    revoked: RevokedServers,
    acceptor: Acceptor,
    to_servers: Connector,
    state: ArcSwap<TlsState>,
}

/// What the server shows, what agents are sent, and what signs their certificates.
struct TlsState {
    own: Peer,
    authorities: Vec<CertificateDer<'static>>,
    authority: Option<Arc<Authority>>,
}

impl TlsState {
    fn load(config: &TlsConfig, credentials: &TlsCredentials) -> Result<Self, TlsError> {
        let authority =
            config.ca_key.as_ref().map(|key| Authority::load(&config.files.ca, key)).transpose()?;
        let (own, authorities) = (credentials.peer(), credentials.authorities().to_vec());
        Ok(Self { own, authorities, authority: authority.map(Arc::new) })
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secure")
    }
}

impl Secure {
    /// Reads the files, for the server of this name; some servers are known to be revoked.
    ///
    /// # Errors
    /// When one cannot be read or used, or the certificate is not this server's.
    pub fn load(
        config: &TlsConfig,
        region: &str,
        name: &str,
        revoked: RevokedServers,
    ) -> Result<Arc<Self>, TlsError> {
        Self::with(config, &load(config, region, Some(name))?, region, Some(name.to_owned()), revoked)
    }

    /// The same for clients that are given no region: it is the certificate's.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_as_certified(config: &TlsConfig) -> Result<Arc<Self>, TlsError> {
        let credentials = TlsCredentials::load(&config.files)?;
        let region = credentials.identity().region().unwrap_or_default().to_owned();
        Self::with(config, &credentials, &region, None, RevokedServers::default())
    }

    fn with(
        config: &TlsConfig,
        credentials: &TlsCredentials,
        region: &str,
        name: Option<String>,
        revoked: RevokedServers,
    ) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self {
            acceptor: Acceptor::new(credentials, region, &revoked)?,
            to_servers: Connector::new(credentials, ExpectedPeer::Server(region.to_owned()), &revoked)?,
            state: ArcSwap::from_pointee(TlsState::load(config, credentials)?),
            config: config.clone(),
            name,
            revoked,
        }))
    }

    /// Reads the files again, for connections from now on.
    ///
    /// # Errors
    /// As [`Self::load`]; then what was read before is used on.
    pub fn reload(&self) -> Result<(), TlsError> {
        let credentials = load(&self.config, self.acceptor.region(), self.name.as_deref())?;
        let state = TlsState::load(&self.config, &credentials)?;
        // All are read and checked before the first is replaced.
        self.acceptor.replace(&credentials)?;
        self.to_servers.replace(&credentials)?;
        self.state.store(Arc::new(state));
        Ok(())
    }

    /// The servers whose certificates were revoked.
    pub fn revoked(&self) -> &RevokedServers {
        &self.revoked
    }

    /// What the server itself shows.
    pub fn own(&self) -> Peer {
        self.state.load().own.clone()
    }

    /// What signs certificates here; none where the key is elsewhere.
    pub fn authority(&self) -> Option<Arc<Authority>> {
        self.state.load().authority.clone()
    }

    /// The authorities that are trusted.
    pub fn authorities(&self) -> Vec<CertificateDer<'static>> {
        self.state.load().authorities.clone()
    }

    /// How long a certificate is valid that an agent gets.
    pub fn agent_life(&self) -> Duration {
        self.config.agent_life
    }

    /// Verifies the chain of an agent, its own certificate first, as a handshake would now. Returns what its certificate says.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn judge_agent(&self, chain: &[CertificateDer<'_>]) -> Result<Peer, String> {
        self.acceptor.judge(PortKind::Agents, chain)
    }

    /// How connections come in at a port.
    pub fn entrance(&self, port: PortKind) -> PortAcceptor {
        let port = match port {
            PortKind::Http if !self.config.http => return PortAcceptor::open(),
            PortKind::Http if self.config.verify_https_client => PortKind::HttpVerified,
            port => port,
        };
        PortAcceptor::guarded(self.acceptor.clone(), port)
    }

    /// Shakes hands with another server that was dialed.
    pub async fn dialed(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        dialed: &str,
    ) -> io::Result<NetStream> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        let connected =
            timeout(HANDSHAKE_MAX, self.to_servers.connect(stream, dialed)).await.map_err(late)?;
        connected.map(|stream| NetStream::dialed(stream, address))
    }
}

fn load(config: &TlsConfig, region: &str, name: Option<&str>) -> Result<TlsCredentials, TlsError> {
    let credentials = TlsCredentials::load(&config.files)?;
    let (identity, path) = (credentials.identity(), config.files.cert.clone());
    if !identity.is_server(Some(region)) {
        let why = format!(
            "it names {identity}, and this is a server of region {region}: it must have the DNS name server.{region}.berth, or server.{region}.nomad",
        );
        return Err(TlsError::File { path, why });
    }
    if let Some(name) = name.filter(|name| !identity.speaks_for_server(name)) {
        let why = format!(
            "it names {identity}, and this is server {name}: make it one with `berth server cert server --server-name {name}`, \
             or start it with the --server-name that the certificate has"
        );
        return Err(TlsError::File { path, why });
    }
    Ok(credentials)
}

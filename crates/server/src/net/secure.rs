//! The certificates of a running server: what its ports ask for, what it shows when it dials, and how both are replaced.

use std::{fmt, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use berth_tls::{
    Acceptor, Authority, CertificateDer, Connector, Expected, HANDSHAKE_MAX, Held, PortKind, TlsError,
    TlsFiles,
};
use tokio::{net::TcpStream, time::timeout};

use super::{Entrance, Stream};

/// Certificates of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Its own, and the authorities that it believes.
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
    acceptor: Acceptor,
    to_servers: Connector,
    believed: ArcSwap<Believed>,
}

/// What agents are told, and what signs their certificates.
struct Believed {
    authorities: Vec<CertificateDer<'static>>,
    authority: Option<Arc<Authority>>,
}

impl Believed {
    fn load(config: &TlsConfig, held: &Held) -> Result<Self, TlsError> {
        let authority =
            config.ca_key.as_ref().map(|key| Authority::load(&config.files.ca, key)).transpose()?;
        Ok(Self { authorities: held.authorities().to_vec(), authority: authority.map(Arc::new) })
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secure")
    }
}

impl Secure {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be read or used, or the certificate is not a server's of this region.
    pub fn load(config: &TlsConfig, region: &str) -> Result<Arc<Self>, TlsError> {
        Self::with(config, load(config, region)?, region)
    }

    /// The same for whoever is told no region: it is the certificate's.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_as_certified(config: &TlsConfig) -> Result<Arc<Self>, TlsError> {
        let held = Held::load(&config.files)?;
        let region = held.identity().region().unwrap_or_default().to_owned();
        Self::with(config, held, &region)
    }

    fn with(config: &TlsConfig, held: Held, region: &str) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self {
            acceptor: Acceptor::new(&held, region)?,
            to_servers: Connector::new(&held, Expected::Server(region.to_owned()))?,
            believed: ArcSwap::from_pointee(Believed::load(config, &held)?),
            config: config.clone(),
        }))
    }

    /// Reads the files anew, for connections from now on.
    ///
    /// # Errors
    /// As [`Self::load`]; then what was read before is used on.
    pub fn reload(&self) -> Result<(), TlsError> {
        let held = load(&self.config, self.acceptor.region())?;
        let believed = Believed::load(&self.config, &held)?;
        self.acceptor.replace(&held)?;
        self.to_servers.replace(&held)?;
        self.believed.store(Arc::new(believed));
        Ok(())
    }

    /// What signs certificates here; none where the key is elsewhere.
    pub fn authority(&self) -> Option<Arc<Authority>> {
        self.believed.load().authority.clone()
    }

    /// The authorities that are believed.
    pub fn authorities(&self) -> Vec<CertificateDer<'static>> {
        self.believed.load().authorities.clone()
    }

    /// How long a certificate is valid that an agent gets.
    pub fn agent_life(&self) -> Duration {
        self.config.agent_life
    }

    /// How connections come in at a port.
    pub fn entrance(&self, port: PortKind) -> Entrance {
        let port = match port {
            PortKind::Http if !self.config.http => return Entrance::open(),
            PortKind::Http if self.config.verify_https_client => PortKind::HttpVerified,
            port => port,
        };
        Entrance::guarded(self.acceptor.clone(), port)
    }

    /// Shakes hands with another server that was dialed.
    pub async fn dialed(&self, stream: TcpStream, address: SocketAddr, dialed: &str) -> io::Result<Stream> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        let shaken = timeout(HANDSHAKE_MAX, self.to_servers.connect(stream, dialed)).await.map_err(late)?;
        match shaken {
            Ok(stream) => Ok(Stream::dialed(stream, address)),
            Err(error) => Err(berth_tls::explain(&error).map_or(error, io::Error::other)),
        }
    }
}

fn load(config: &TlsConfig, region: &str) -> Result<Held, TlsError> {
    let held = Held::load(&config.files)?;
    if held.identity().is_server(Some(region)) {
        return Ok(held);
    }
    let why = format!(
        "it names {}, and this is a server of region {region}: it must have the DNS name server.{region}.berth, or server.{region}.nomad",
        held.identity()
    );
    Err(TlsError::File { path: config.files.cert.clone(), why })
}

//! The server's side of connections: each kind of port has its own requirements on client certificates.

use std::{io, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::{
    LazyConfigAcceptor, TlsStream,
    rustls::{
        self, CertificateError, DigitallySignedStruct, DistinguishedName, HandshakeKind, OtherError,
        ServerConfig, SignatureScheme,
        client::danger::HandshakeSignatureValid,
        crypto::ring::Ticketer,
        pki_types::{CertificateDer, UnixTime},
        server::{
            Acceptor as Greeting, ProducesTickets,
            danger::{ClientCertVerified, ClientCertVerifier},
        },
        version::TLS13,
    },
};

use crate::{
    Identity, Peer, RevokedServers, TlsCredentials, TlsError,
    credentials::{client_verifier, provider},
    error_text::WrongRole,
};

/// How long a handshake may take.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// What is spoken on the HTTP port.
const HTTP: &[u8] = b"http/1.1";
/// What an agent speaks that has no certificate yet, or wants a new one: a port of its own on the port for agents.
pub const ENROLL: &[u8] = b"berth-enroll/1";

/// What is behind a port, which decides who may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// People, browsers, programs: a certificate is welcome and not needed.
    Http,
    /// The same where everybody must show a certificate.
    HttpVerified,
    /// Agents, each with its certificate.
    Agents,
    /// Enrollment of agents, on their port.
    Enrollment,
    /// Other servers.
    Servers,
}

/// All kinds, in the order of their numbers.
const KINDS: [PortKind; 5] =
    [PortKind::Http, PortKind::HttpVerified, PortKind::Agents, PortKind::Enrollment, PortKind::Servers];

/// Takes connections in. Cheap to clone; clones share what they hold.
#[derive(Clone)]
pub struct Acceptor(Arc<AcceptorInner>);

struct AcceptorInner {
    region: String,
    revoked: RevokedServers,
    /// Tickets of one kind of port open no other, and are good across a change of certificates.
    tickets: [Arc<dyn ProducesTickets>; KINDS.len()],
    ports: ArcSwap<[PortConfig; KINDS.len()]>,
}

/// The requirements of one kind of port.
struct PortConfig {
    config: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// A connection that was taken in.
pub struct Accepted {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// Whose it is; none where no certificate was shown.
    pub peer: Option<Peer>,
    /// The kind of port: agents and enrolling agents share one.
    pub kind: PortKind,
}

/// Why a connection was not taken in.
#[derive(Debug)]
pub struct HandshakeRefused {
    /// The cause.
    pub error: io::Error,
    /// The connection, where it did not even speak TLS.
    pub not_tls: Option<TcpStream>,
}

impl Acceptor {
    /// Takes connections in as a server of a region, from nobody who shows what was revoked.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn new(held: &TlsCredentials, region: &str, revoked: &RevokedServers) -> Result<Self, TlsError> {
        let failed = |source| TlsError::Tls { what: "prepare tickets".into(), source };
        let tickets = KINDS.iter().map(|_| Ticketer::new()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let tickets = tickets.try_into().map_err(|_| TlsError::Make("tickets".into()))?;
        let ports = ArcSwap::from_pointee(ports(held, region, revoked, &tickets)?);
        Ok(Self(Arc::new(AcceptorInner {
            region: region.to_owned(),
            revoked: revoked.clone(),
            tickets,
            ports,
        })))
    }

    /// The region whose server takes them in.
    pub fn region(&self) -> &str {
        &self.0.region
    }

    /// Uses other certificates for connections from now on.
    ///
    /// # Errors
    /// When the library refuses; then the others are used on.
    pub fn replace(&self, held: &TlsCredentials) -> Result<(), TlsError> {
        let AcceptorInner { region, revoked, tickets, ports: used } = &*self.0;
        used.store(Arc::new(ports(held, region, revoked, tickets)?));
        Ok(())
    }

    /// Whether a port would take in who shows this chain, the own certificate first: what it says. That whoever shows it has its
    /// key is another question, which a handshake answers.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn judge(&self, kind: PortKind, chain: &[CertificateDer<'_>]) -> Result<Peer, String> {
        let [own, between @ ..] = chain else { return Err("no certificate is shown".to_owned()) };
        let ports = self.0.ports.load();
        let judged = ports[kind as usize].verifier.verify_client_cert(own, between, UnixTime::now());
        judged.map_err(|error| {
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            crate::explain(&error).unwrap_or_else(|| error.to_string())
        })?;
        Ok(Peer::of_der(own))
    }

    /// Shakes hands. The caller says how long that may take.
    ///
    /// # Errors
    /// When the other side breaks off, shows what the port does not take, or does not speak TLS.
    pub async fn accept(&self, kind: PortKind, stream: TcpStream) -> Result<Accepted, Box<HandshakeRefused>> {
        let refused = |error| Box::new(HandshakeRefused { error, not_tls: None });
        if matches!(kind, PortKind::Http | PortKind::HttpVerified) && !speaks_tls(&stream).await {
            let error = io::Error::new(io::ErrorKind::InvalidData, "it does not speak TLS");
            return Err(Box::new(HandshakeRefused { error, not_tls: Some(stream) }));
        }
        let greeting = LazyConfigAcceptor::new(Greeting::default(), stream);
        let start = greeting.await.map_err(refused)?;
        let enrolls = kind == PortKind::Agents
            && start.client_hello().alpn().is_some_and(|mut names| names.any(|name| name == ENROLL));
        let kind = if enrolls { PortKind::Enrollment } else { kind };
        let ports = self.0.ports.load_full();
        let port = &ports[kind as usize];
        let stream = start.into_stream(port.config.clone()).await.map_err(refused)?;
        let (_, connection) = stream.get_ref();
        let certificates = connection.peer_certificates().unwrap_or_default();
        if connection.handshake_kind() == Some(HandshakeKind::Resumed) {
            port.check_again(certificates)
                .map_err(|error| refused(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        }
        let peer = certificates.first().map(|own| Peer::of_der(own));
        Ok(Accepted { peer, kind, stream: TlsStream::Server(stream) })
    }
}

/// Whether what comes first is what TLS begins with. People who forget the s of https deserve words that they can read.
async fn speaks_tls(stream: &TcpStream) -> bool {
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    // Whatever is wrong with the connection shows again as it is used.
    !matches!(stream.peek(&mut first).await, Ok(1) if first[0] != HANDSHAKE)
}

impl PortConfig {
    fn new(
        kind: PortKind,
        held: &TlsCredentials,
        region: &str,
        revoked: &RevokedServers,
        tickets: Arc<dyn ProducesTickets>,
    ) -> Result<Self, rustls::Error> {
        let optional = matches!(kind, PortKind::Http | PortKind::Enrollment);
        let verifier: Arc<dyn ClientCertVerifier> = Arc::new(RoleVerifier {
            certificates: client_verifier(&held.roots, optional)?,
            kind,
            region: region.to_owned(),
            revoked: revoked.clone(),
        });
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier.clone());
        // Who joins knows the authority by its fingerprint only, and must be shown it.
        let authority = held.authorities().iter().filter(|one| !held.chain.contains(one));
        let authority = authority.filter(|_| kind == PortKind::Enrollment);
        let chain = held.chain.iter().chain(authority).cloned().collect();
        let mut config = config.with_single_cert(chain, held.key.clone_key())?;
        config.ticketer = tickets;
        config.alpn_protocols = match kind {
            PortKind::Http | PortKind::HttpVerified => vec![HTTP.to_vec()],
            PortKind::Enrollment => vec![ENROLL.to_vec()],
            PortKind::Agents | PortKind::Servers => Vec::new(),
        };
        Ok(Self { config: Arc::new(config), verifier })
    }

    /// What was shown when the session began may be of an authority that is believed no more, or have expired since; and who
    /// showed nothing then shows nothing now.
    fn check_again(&self, certificates: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        match certificates {
            [own, between @ ..] => self.verifier.verify_client_cert(own, between, UnixTime::now()).map(drop),
            [] if self.verifier.client_auth_mandatory() => Err(rustls::Error::NoCertificatesPresented),
            [] => Ok(()),
        }
    }
}

fn ports(
    held: &TlsCredentials,
    region: &str,
    revoked: &RevokedServers,
    tickets: &[Arc<dyn ProducesTickets>; KINDS.len()],
) -> Result<[PortConfig; KINDS.len()], TlsError> {
    let failed = |source| TlsError::Tls { what: "use the certificate".into(), source };
    let port = |(kind, tickets): (&PortKind, &Arc<dyn ProducesTickets>)| {
        PortConfig::new(*kind, held, region, revoked, tickets.clone())
    };
    let ports = KINDS.iter().zip(tickets).map(port);
    let ports = ports.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    ports.try_into().map_err(|_| TlsError::Make("one for each port".into()))
}

/// Asks of a certificate, besides being valid, that it was not revoked and names a role that has business at the port.
#[derive(Debug)]
struct RoleVerifier {
    certificates: Arc<dyn ClientCertVerifier>,
    kind: PortKind,
    region: String,
    revoked: RevokedServers,
}

impl RoleVerifier {
    fn lets_in(&self, identity: &Identity) -> bool {
        match self.kind {
            PortKind::Http | PortKind::HttpVerified => true,
            PortKind::Agents | PortKind::Enrollment => identity.is_agent(Some(&self.region)),
            PortKind::Servers => identity.is_server(Some(&self.region)),
        }
    }

    fn needs(&self) -> String {
        match self.kind {
            PortKind::Http | PortKind::HttpVerified => "anybody".to_owned(),
            PortKind::Agents | PortKind::Enrollment => format!("an agent of region {}", self.region),
            PortKind::Servers => format!("a server of region {}", self.region),
        }
    }
}

impl ClientCertVerifier for RoleVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.certificates.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Those who come know what to show, and authorities are nobody else's business.
        &[]
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.certificates.verify_client_cert(own, between, now)?;
        self.revoked.verify(own)?;
        let identity = Identity::of_der(own);
        if self.lets_in(&identity) {
            return Ok(verified);
        }
        // The other side is sent "certificate unknown", which no other fault of a certificate says.
        let why = WrongRole { shown: identity.to_string(), needed: self.needs() };
        Err(CertificateError::Other(OtherError(Arc::new(why))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.certificates.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.certificates.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.certificates.supported_verify_schemes()
    }
}

//! The client's side of connections: which servers it accepts, and the certificate that it shows.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arc_swap::ArcSwap;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector, client,
    rustls::{
        self, CertificateError, ClientConfig, DigitallySignedStruct, HandshakeKind, OtherError,
        RootCertStore, SignatureScheme,
        client::{
            Resumption,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
            verify_server_cert_signed_by_trust_anchor, verify_server_name,
        },
        crypto::{verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, ServerName, UnixTime},
        server::ParsedCertificate,
        version::TLS13,
    },
};

use crate::{
    Identity, Peer, RevokedServers, TlsCredentials, TlsError, accept::ENROLL, credentials::provider,
    error_text::WrongRole, fingerprint,
};

/// Whom a client means to talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedPeer {
    /// A server of this region, wherever it listens.
    Server(String),
    /// A server of any region that this side's authorities know, or whoever has the name that was dialed.
    ServerOrHost,
    /// Whoever has the name that was dialed.
    Host,
    /// Anybody.
    Anybody,
    /// A server whose authority has this fingerprint; nothing else is known of it yet.
    Fingerprint([u8; 32]),
}

/// Opens connections; what it shows and believes can be replaced.
pub struct Connector {
    expected: ExpectedPeer,
    revoked: RevokedServers,
    config: ArcSwap<ClientConfig>,
}

impl Connector {
    /// Shows and believes what is held, and nothing that was revoked.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn new(
        held: &TlsCredentials,
        expected: ExpectedPeer,
        revoked: &RevokedServers,
    ) -> Result<Self, TlsError> {
        Self::speaking(held, expected, revoked, &[])
    }

    /// For requesting a new certificate with the current one.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn renewing(
        held: &TlsCredentials,
        expected: ExpectedPeer,
        revoked: &RevokedServers,
    ) -> Result<Self, TlsError> {
        Self::speaking(held, expected, revoked, &[ENROLL])
    }

    fn speaking(
        held: &TlsCredentials,
        expected: ExpectedPeer,
        revoked: &RevokedServers,
        protocols: &[&[u8]],
    ) -> Result<Self, TlsError> {
        let config = own_config(held, expected.clone(), revoked, protocols)?;
        Ok(Self { expected, revoked: revoked.clone(), config: ArcSwap::from_pointee(config) })
    }

    /// For requesting a first certificate.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn joining(authority: [u8; 32], revoked: &RevokedServers) -> Result<Self, TlsError> {
        let expected = ExpectedPeer::Fingerprint(authority);
        let builder = believing(Arc::new(RootCertStore::empty()), expected.clone(), revoked)?;
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![ENROLL.to_vec()];
        Ok(Self { expected, revoked: revoked.clone(), config: ArcSwap::from_pointee(config) })
    }

    /// Another one that shows and believes the same, and takes up its own sessions only, with one server.
    #[must_use]
    pub fn sibling(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config.load());
        config.resumption = Resumption::in_memory_sessions(1);
        let (expected, revoked) = (self.expected.clone(), self.revoked.clone());
        Self { expected, revoked, config: ArcSwap::from_pointee(config) }
    }

    /// Shows and believes something else from now on. Sessions that were begun before are not taken up again: they would show
    /// what was held then.
    ///
    /// # Errors
    /// When the library refuses; then the other is used on.
    pub fn replace(&self, held: &TlsCredentials) -> Result<(), TlsError> {
        self.config.store(Arc::new(own_config(held, self.expected.clone(), &self.revoked, &[])?));
        Ok(())
    }

    /// Shakes hands with whoever was dialed as `HOST:PORT`. The caller says how long that may take.
    ///
    /// # Errors
    /// When the other side is not who was expected, was revoked, or does not want this one.
    pub async fn connect(&self, stream: TcpStream, dialed: &str) -> io::Result<Stream> {
        let stream = shake_hands(self.config.load_full(), stream, dialed, None).await?;
        // Nobody looks at the certificate of a session that is taken up again.
        if let (true, Some(peer)) = (stream.is_resumed(), stream.peer()) {
            self.revoked.check(&peer, None).map_err(io::Error::other)?;
        }
        Ok(stream)
    }
}

/// Shakes hands with whoever was dialed as `HOST:PORT`, and asks for him by another name if there is one.
pub(crate) async fn shake_hands(
    config: Arc<ClientConfig>,
    stream: TcpStream,
    dialed: &str,
    name: Option<ServerName<'static>>,
) -> io::Result<Stream> {
    let host = dialed.rsplit_once(':').map_or(dialed, |(host, _)| host);
    let name = name
        .or_else(|| named(host))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{host} is no name of a host")))?;
    Ok(Stream::Tls(Box::new(TlsConnector::from(config).connect(name, stream).await?)))
}

/// The name or the address of a host; none for what is neither.
pub(crate) fn named(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']').to_owned()).ok()
}

pub(crate) type Builder = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

pub(crate) fn believing(
    roots: Arc<RootCertStore>,
    expected: ExpectedPeer,
    revoked: &RevokedServers,
) -> Result<Builder, TlsError> {
    let failed = |source| TlsError::Tls { what: "speak TLS".into(), source };
    let verifier = ServerVerifier { roots, expected, revoked: revoked.clone() };
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    Ok(builder.map_err(failed)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

fn own_config(
    held: &TlsCredentials,
    expected: ExpectedPeer,
    revoked: &RevokedServers,
    protocols: &[&[u8]],
) -> Result<ClientConfig, TlsError> {
    let failed = |source| TlsError::Tls { what: "use the certificate".into(), source };
    let builder = believing(held.roots.clone(), expected, revoked)?;
    let mut config =
        builder.with_client_auth_cert(held.chain.clone(), held.key.clone_key()).map_err(failed)?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Decides whether a server is who was meant.
#[derive(Debug)]
struct ServerVerifier {
    roots: Arc<RootCertStore>,
    expected: ExpectedPeer,
    revoked: RevokedServers,
}

/// The server's authority is another than the one that the join token names.
#[derive(Debug, thiserror::Error)]
#[error(
    "the authority of the server is not the one that the join token names: is the token of another cluster, or somebody in between?"
)]
struct OtherAuthority;

impl ServerVerifier {
    fn check(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if self.expected == ExpectedPeer::Anybody {
            return Ok(());
        }
        let certificate = ParsedCertificate::try_from(own)?;
        let pinned = self.pinned(between)?;
        let roots = pinned.as_ref().unwrap_or(&self.roots);
        let algorithms = provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, between, now, algorithms)?;
        self.revoked.verify(own)?;
        let identity = Identity::of_der(own);
        let needed = match &self.expected {
            ExpectedPeer::Anybody => return Ok(()),
            ExpectedPeer::Host => return verify_server_name(&certificate, name),
            ExpectedPeer::ServerOrHost if identity.is_server(None) => return Ok(()),
            ExpectedPeer::ServerOrHost => return verify_server_name(&certificate, name),
            ExpectedPeer::Server(region) if identity.is_server(Some(region)) => return Ok(()),
            ExpectedPeer::Fingerprint(_) if identity.is_server(None) => return Ok(()),
            ExpectedPeer::Server(region) => format!("a server of region {region}"),
            ExpectedPeer::Fingerprint(_) => "a server".to_owned(),
        };
        Err(other(WrongRole { shown: identity.to_string(), needed }))
    }

    /// The authority that the token names, of those that were sent; none where no token does.
    fn pinned(&self, between: &[CertificateDer<'_>]) -> Result<Option<RootCertStore>, rustls::Error> {
        let ExpectedPeer::Fingerprint(wanted) = &self.expected else { return Ok(None) };
        let authority = between.iter().find(|one| fingerprint(one) == *wanted);
        let mut roots = RootCertStore::empty();
        roots.add(authority.ok_or_else(|| other(OtherAuthority))?.clone().into_owned())?;
        Ok(Some(roots))
    }
}

fn other(why: impl std::error::Error + Send + Sync + 'static) -> rustls::Error {
    CertificateError::Other(OtherError(Arc::new(why))).into()
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(own, between, name, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A connection that was opened, with TLS or without.
#[derive(Debug)]
pub enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<client::TlsStream<TcpStream>>),
}

impl Stream {
    /// What carries it.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Whether a session was taken up again instead of begun again.
    pub fn is_resumed(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// What the server has shown; none without TLS.
    pub fn peer(&self) -> Option<Peer> {
        self.peer_certificates().first().map(|own| Peer::of_der(own))
    }

    /// The certificates that the server has shown, its own first; none without TLS.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        match self {
            Self::Plain(_) => &[],
            Self::Tls(stream) => stream.get_ref().1.peer_certificates().unwrap_or_default(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

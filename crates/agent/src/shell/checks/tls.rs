//! TLS for checks: with the host's root certificates, or with any certificate where the job turns verification off.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use berth_api::agent::TlsCheckSpec;
use berth_tls::provider;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::failure::PANICKED;

/// The connection that a check uses.
pub(super) trait CheckStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> CheckStream for T {}

/// The protocol that is spoken within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// A connection as it is, or within TLS where the check asks for that. `host` is who is asked unless the check names
/// somebody.
pub(super) async fn wrap(
    stream: TcpStream,
    tls: Option<&TlsCheckSpec>,
    (host, protocol): (&str, Protocol),
) -> Result<Box<dyn CheckStream>, String> {
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = if tls.server_name.is_empty() { host } else { &tls.server_name };
    let server = match name.parse::<IpAddr>() {
        Ok(ip) => ServerName::from(ip),
        Err(_) => ServerName::try_from(name.to_owned())
            .map_err(|_| format!("{name:?} is no name of a server: correct `tls_server_name`"))?,
    };
    let mut config = if tls.skip_verify { unverified()? } else { verified().await? };
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    let wrapped = TlsConnector::from(Arc::new(config)).connect(server, stream).await;
    let wrapped = wrapped.map_err(|error| format!("TLS with {name}: {error}"))?;
    Ok(Box::new(wrapped))
}

/// By the host's root certificates, which are read once. A host without any is asked again: somebody may install them.
async fn verified() -> Result<ClientConfig, String> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = match ROOTS.get() {
        Some(roots) => roots.clone(),
        None => {
            let read = tokio::task::spawn_blocking(native_roots).await.map_err(|_| PANICKED)??;
            ROOTS.get_or_init(|| Arc::new(read)).clone()
        }
    };
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn native_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "this node has no root certificates, by which servers prove who they are: install the package \
                    ca-certificates, or write `tls_skip_verify = true`"
                .to_owned(),
        );
    }
    Ok(roots)
}

fn unverified() -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let anybody = Arc::new(Anybody(provider()));
    Ok(builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth())
}

/// Takes any certificate; that its owner holds the key is looked at all the same.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

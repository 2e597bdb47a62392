//! TLS of clients of the HTTP API: the certificate that they show, and the authorities that they trust.

use std::{io, path::Path, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, pki_types::ServerName};

use crate::{
    ExpectedPeer, RevokedServers, Stream, TlsError,
    connect::{believing, named, shake_hands},
    credentials::roots,
    files::{read_certificates, read_certificates_of_dir, read_key},
};

/// What a client is to show, and whom it is to believe.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientFiles<'a> {
    /// Authorities to believe, besides which a server needs no name; none for those that the system believes.
    pub ca: Option<&'a Path>,
    /// A directory with files of more of them.
    pub ca_dir: Option<&'a Path>,
    /// A certificate and its key.
    pub own: Option<(&'a Path, &'a Path)>,
    /// The name that the server's certificate must have, whatever was dialed. It is asked for by that name.
    pub server_name: Option<&'a str>,
    /// Believes whoever answers.
    pub skip_verify: bool,
}

/// What a client shows and believes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be read, or what it holds cannot be used; when the name is none.
    pub fn load(files: &ClientFiles<'_>) -> Result<Self, TlsError> {
        let failed = |source| TlsError::Tls { what: "use the client's certificate".into(), source };
        let server_name =
            files.server_name.map(|name| named(name).ok_or_else(|| TlsError::Host(name.into())));
        let server_name = server_name.transpose()?;
        let mut own = files.ca.map(read_certificates).transpose()?;
        if let Some(dir) = files.ca_dir {
            own.get_or_insert_default().extend(read_certificates_of_dir(dir)?);
        }
        let (roots, has_own) = match &own {
            Some(own) => (roots(own)?, true),
            None => (system_roots(), false),
        };
        let expected = match (files.skip_verify, &server_name, has_own) {
            (true, ..) => ExpectedPeer::Anybody,
            (false, None, true) => ExpectedPeer::ServerOrHost,
            (false, ..) => ExpectedPeer::Host,
        };
        let builder = believing(roots, expected, &RevokedServers::default())?;
        let config = match files.own {
            Some((certificate, key)) => builder
                .with_client_auth_cert(read_certificates(certificate)?, read_key(key)?)
                .map_err(failed)?,
            None => builder.with_no_client_auth(),
        };
        Ok(Self { config: Arc::new(config), server_name })
    }

    /// For a client that speaks without TLS: it believes nobody.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn none() -> Result<Self, TlsError> {
        let config =
            believing(Arc::new(RootCertStore::empty()), ExpectedPeer::Host, &RevokedServers::default())?
                .with_no_client_auth();
        Ok(Self { config: Arc::new(config), server_name: None })
    }

    /// For whoever opens connections by himself.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// The name by which each server is asked for; none for what was dialed.
    pub fn server_name(&self) -> Option<&ServerName<'static>> {
        self.server_name.as_ref()
    }

    /// Shakes hands with whoever was dialed as `HOST:PORT`. The caller says how long that may take.
    ///
    /// # Errors
    /// As [`crate::Connector::connect`].
    pub async fn connect(&self, stream: TcpStream, dialed: &str) -> io::Result<Stream> {
        shake_hands(self.config.clone(), stream, dialed, self.server_name.clone()).await
    }
}

fn system_roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
}

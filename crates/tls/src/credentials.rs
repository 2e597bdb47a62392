//! The credentials of a process: the authorities that it trusts, its own certificate and its key, validated together.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use tokio_rustls::rustls::{
    self, CertificateError, RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime},
    server::{ParsedCertificate, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};

use crate::{
    Identity, Peer, TlsError, TlsFiles,
    clock::now_secs,
    der,
    files::{read_certificates, read_key, wrong},
};

/// What a process holds.
pub struct TlsCredentials {
    pub(crate) roots: Arc<RootCertStore>,
    authorities: Vec<CertificateDer<'static>>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    identity: Identity,
}

impl TlsCredentials {
    /// Reads the files, and checks that they belong together and are valid now.
    ///
    /// # Errors
    /// When one cannot be read, the key is another certificate's, the certificate is of another authority, or one of the two is
    /// not valid at this machine's time.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let authorities = read_certificates(&files.ca)?;
        let chain = read_certificates(&files.cert)?;
        let key = read_key(&files.key)?;
        check_time(&chain[0], &files.cert.display().to_string(), now_secs())?;
        Self::new(authorities, chain, key).map_err(|error| match error {
            TlsError::Tls { source: rustls::Error::InconsistentKeys(_), .. } => wrong(
                &files.key,
                &format!("it is not the key of the certificate in {}", files.cert.display()),
            ),
            TlsError::Tls { source, .. } => match source {
                rustls::Error::InvalidCertificate(why) => {
                    wrong(&files.cert, &format!("{} ({})", why_unbelieved(&why), files.ca.display()))
                }
                source => wrong(&files.key, &source.to_string()),
            },
            error => error,
        })
    }

    /// The same of what was read elsewhere.
    ///
    /// # Errors
    /// When they do not belong together.
    pub fn new(
        authorities: Vec<CertificateDer<'static>>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, TlsError> {
        let failed = |source| TlsError::Tls { what: "use the certificate".into(), source };
        let roots = roots(&authorities)?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider()).map_err(failed)?;
        let [own, between @ ..] = chain.as_slice() else {
            return Err(TlsError::Make("there is no certificate".into()));
        };
        let identity = Identity::of_der(own);
        trust(&roots, own, between, identity.is_server(None)).map_err(failed)?;
        Ok(Self { roots, authorities, chain, key, identity })
    }

    /// What the own certificate says.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The own certificate, as others see it.
    pub fn peer(&self) -> Peer {
        Peer::of_der(&self.chain[0])
    }

    /// The own certificate and those between it and an authority, as they are shown.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Whether the other holds the same certificates.
    pub fn is_same(&self, other: &Self) -> bool {
        self.authorities == other.authorities && self.chain == other.chain
    }

    /// The authorities that are believed.
    pub fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    /// From when on and until when the own certificate is valid: seconds since 1970.
    pub fn validity(&self) -> (u64, u64) {
        der::outline(&self.chain[0]).map_or((0, 0), |outline| (outline.not_before, outline.not_after))
    }
}

impl fmt::Debug for TlsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({})", self.identity)
    }
}

/// Whether an authority among `roots` says that a certificate is a server's, or a client's.
pub(crate) fn trust(
    roots: &Arc<RootCertStore>,
    own: &CertificateDer<'_>,
    between: &[CertificateDer<'_>],
    server: bool,
) -> Result<(), rustls::Error> {
    if server {
        let certificate = ParsedCertificate::try_from(own)?;
        let algorithms = provider().signature_verification_algorithms.all;
        return verify_server_cert_signed_by_trust_anchor(
            &certificate,
            roots,
            between,
            UnixTime::now(),
            algorithms,
        );
    }
    client_verifier(roots, false)?.verify_client_cert(own, between, UnixTime::now()).map(drop)
}

/// Checks the certificates that clients show; `optional` lets those in who show none.
pub(crate) fn client_verifier(
    roots: &Arc<RootCertStore>,
    optional: bool,
) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
    let builder = if optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|error| rustls::Error::General(error.to_string()))
}

pub(crate) fn roots(authorities: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let failed = |source| TlsError::Tls { what: "use the authority's certificate".into(), source };
        roots.add(authority.clone()).map_err(failed)?;
    }
    Ok(Arc::new(roots))
}

/// The one that is compiled in: whoever asks for the process's default would depend on who came first. Its tables are made once,
/// since each handshake asks for them several times.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));
    PROVIDER.clone()
}

/// Whether a certificate is valid now, by this machine's clock.
pub(crate) fn check_time(certificate: &[u8], what: &str, now: u64) -> Result<(), TlsError> {
    let Some(outline) = der::outline(certificate) else { return Ok(()) };
    let (not_before, not_after, what) = (outline.not_before, outline.not_after, what.to_owned());
    if now > not_after {
        return Err(TlsError::Expired { what, not_after, now });
    }
    if now < not_before {
        return Err(TlsError::NotYetValid { what, not_before, now });
    }
    Ok(())
}

fn why_unbelieved(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "it was signed by no authority that is in the CA file".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its extended key usage allows another use than its role needs".to_owned()
        }
        why => why.to_string(),
    }
}

/// SHA-256 of a certificate, by which a join token names its authority.
pub fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    let digest = ::ring::digest::digest(&::ring::digest::SHA256, certificate);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_handshakes_compute_with_is_made_once() {
        assert!(Arc::ptr_eq(&provider(), &provider()));
    }
}

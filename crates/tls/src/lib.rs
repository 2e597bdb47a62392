//! Who speaks at the other end of a connection: certificates that name roles, the authority that signs them, and TLS on both
//! sides of a connection. The only place that knows rustls' configuration; everything else sees streams and identities.

mod accept;
mod authority;
mod client;
mod clock;
mod connect;
mod credentials;
mod der;
mod error;
mod error_text;
mod files;
mod identity;
mod pem;
mod revoked;

pub use accept::{Accepted, Acceptor, ENROLL, HANDSHAKE_MAX, HandshakeRefused, PortKind};
pub use authority::{Authority, CertificateRequest, Certified, HostName, Key, Validity, has_signed};
pub use client::{ClientFiles, ClientTls};
pub use clock::now_secs;
pub use connect::{Connector, ExpectedPeer, Stream};
pub use credentials::{TlsCredentials, fingerprint, provider};
pub use error::TlsError;
pub use error_text::explain;
pub use files::{TlsFiles, read_certificates, replace_file, write_new};
pub use identity::{Identity, Peer, Role, check_region, check_server_name};
pub use pem::{CERTIFICATE, PRIVATE_KEY, encode};
pub use revoked::{CertificateRevoked, RevokedServers};
pub use tokio_rustls::{TlsStream, rustls::pki_types::CertificateDer};

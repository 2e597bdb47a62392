//! Who speaks at the other end of a connection: certificates that name roles, the authority that signs them, and TLS on both
//! sides of a connection. The only place that knows rustls' configuration; everything else sees streams and identities.

mod accept;
mod authority;
mod client;
mod clock;
mod connect;
mod der;
mod error;
mod files;
mod identity;
mod pem;
mod revoked;
mod trust;
mod words;

pub use accept::{Accepted, Acceptor, ENROLL, HANDSHAKE_MAX, PortKind, Refused};
pub use authority::{Authority, CertificateRequest, Certified, HostName, Key, Validity, has_signed};
pub use client::{ClientFiles, ClientTls};
pub use clock::now_secs;
pub use connect::{Connector, Expected, Stream};
pub use error::TlsError;
pub use files::{TlsFiles, read_certificates, write_new, write_over};
pub use identity::{Identity, Peer, Role, check_region, check_server_name};
pub use pem::{CERTIFICATE, PRIVATE_KEY, encode};
pub use revoked::{CertificateRevoked, RevokedServers};
pub use tokio_rustls::{TlsStream, rustls::pki_types::CertificateDer};
pub use trust::{Held, fingerprint, provider};
pub use words::explain;

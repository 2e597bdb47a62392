//! Errors of reading and using certificates.

use std::{io, path::PathBuf};

use crate::clock::{moment, span};

/// Why certificates cannot be had or used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("read {path}: {source}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("write {path}: {source}")]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path}: {why}")]
    File {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What is to be used was valid until some time ago.
    #[error(
        "{what} expired {ago} ago, at {then}; this machine's clock says {now}: if the clock is right, a new certificate is needed",
        ago = span(now.saturating_sub(*not_after)), then = moment(*not_after), now = moment(*now)
    )]
    Expired {
        /// The certificate, by its file or its owner.
        what: String,
        /// Seconds since 1970.
        not_after: u64,
        /// Seconds since 1970.
        now: u64,
    },
    /// What is to be used is valid from some time on.
    #[error(
        "{what} is valid only in {ahead}, from {then} on; this machine's clock says {now}: one of the clocks is wrong",
        ahead = span(not_before.saturating_sub(*now)), then = moment(*not_before), now = moment(*now)
    )]
    NotYetValid {
        /// The certificate, by its file or its owner.
        what: String,
        /// Seconds since 1970.
        not_before: u64,
        /// Seconds since 1970.
        now: u64,
    },
    /// A region that cannot stand in a certificate.
    #[error(
        "region {0:?} cannot stand in a certificate: use 1 to 63 letters, digits and dashes, with no dash at an end"
    )]
    Region(String),
    /// The name of a server that cannot stand in a certificate.
    #[error(
        "server name {0:?} cannot stand in a certificate: use letters, digits and dashes, in parts of 1 to 63 with dots between them, and 128 at most"
    )]
    ServerName(String),
    /// A name or an address that cannot stand in a certificate.
    #[error("{0:?} is neither a name nor an address of a host")]
    Host(String),
    /// A certificate cannot be made.
    #[error("make a certificate: {0}")]
    Make(String),
    /// The library refuses.
    #[error("{what}: {source}")]
    Tls {
        /// What was to be done.
        what: String,
        /// Why it cannot be.
        source: tokio_rustls::rustls::Error,
    },
}

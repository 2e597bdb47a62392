//! Errors of the host: what was being done, and what error the kernel returned.

use std::io;

/// Why work on another thread failed: what a panic says may hold secrets, and stays on standard error.
pub(crate) const PANICKED: &str = "internal error: a panic; see the agent's log";

/// An operation that the host refused.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub struct Failure {
    doing: String,
    source: io::Error,
}

impl Failure {
    pub(crate) fn new(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self { doing: doing.into(), source: source.into() }
    }

    /// A record that a newer version wrote: nothing must be done about it by this one.
    pub(crate) fn newer(doing: impl Into<String>, cause: impl ToString) -> Self {
        Self::new(doing, io::Error::new(io::ErrorKind::Unsupported, cause.to_string()))
    }

    pub(crate) fn is_newer(&self) -> bool {
        self.source.kind() == io::ErrorKind::Unsupported
    }

    /// The disk is full.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    pub(crate) fn other(doing: impl Into<String>, cause: impl ToString) -> Self {
        Self::new(doing, io::Error::other(cause.to_string()))
    }
}

/// Says what was being done when something fails.
pub(crate) trait FailureContext<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> FailureContext<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(what(), error))
    }
}

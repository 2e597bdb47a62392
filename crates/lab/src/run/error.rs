//! Why an experiment has no result.

use std::{io, path::Path};

use super::params::ParamError;
use crate::traces::TraceError;

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A parameter cannot be.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A recorded trace cannot be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The server's log would not be on a disk.
    #[error(
        "refusing to keep the server's log in {dir}: it is in memory, and what is synced there costs nothing; choose a directory on a disk with --data"
    )]
    InMemory {
        /// Path of the directory.
        dir: String,
    },
    /// A process cannot be started, or did not get ready.
    #[error("start {what}: {reason}")]
    Start {
        /// In words, what it concerns.
        what: String,
        /// The reason, in words.
        reason: String,
    },
    /// A process ended unexpectedly.
    #[error("{what} ended during the run: {how}; see {log_path}")]
    Ended {
        /// In words, what it concerns.
        what: String,
        /// How it ended: its exit status or signal.
        how: String,
        /// The file with what it reported.
        log_path: String,
    },
    /// The server refused something, or cannot be reached.
    #[error("{doing}: {reason}")]
    Http {
        /// The operation, e.g. `ask for /v1/jobs`.
        doing: String,
        /// Why it failed.
        reason: String,
    },
    /// Not every task got where it should.
    #[error("{0}")]
    Incomplete(String),
    /// The run was interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
    /// A file or a socket cannot be used.
    #[error("{doing}: {source}")]
    Io {
        /// The operation, e.g. `create /tmp/x`.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl RunError {
    /// A file cannot be used; `doing` is a verb.
    pub(super) fn io(doing: &str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing: format!("{doing} {}", path.display()), source }
    }
}

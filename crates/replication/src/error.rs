//! What can go wrong, each with what to do about it.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::DiskFull;

/// Something on disk is not what was written there, and it may have been acknowledged.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: {what}; this server refuses to start without what it had promised to keep. If it is one of several, let it join \
     the others again: `berth server rejoin`. If it is the only one, restore a snapshot or a backup of its directory",
    file.display()
)]
pub struct Damage {
    /// The path.
    pub file: PathBuf,
    /// Which record, and what is wrong with it.
    pub what: String,
}

impl Damage {
    pub(crate) fn new(file: &Path, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), what: what.into() }
    }
}

/// The log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its cluster was recovered without this server.
    #[error("open log: {0}")]
    LeftBehind(String),
    /// A setting that makes no sense.
    #[error("open log: {0}")]
    Config(String),
    /// Two servers would write to one directory.
    #[error(
        "data directory {} is in use by {}: stop that server, or give this one a directory of its own",
        dir.display(),
        pid.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Who holds it, when it said so.
        pid: Option<u32>,
    },
    /// The directory belongs to somebody else.
    #[error("data directory {} belongs to {found}, this is {wanted}", dir.display())]
    NotOurs {
        /// The directory.
        dir: PathBuf,
        /// Cluster and server that the directory belongs to.
        found: String,
        /// Cluster and server of this process.
        wanted: String,
    },
    /// A newer version has written it, in a format that this one does not know.
    #[error(
        "data directory {} has layout {layout}, written by Berth {version}; this is Berth {ours}, which knows layouts \
         up to {known}: start Berth {version} or newer, or give this server another directory",
        dir.display()
    )]
    Newer {
        /// The directory.
        dir: PathBuf,
        /// Its layout.
        layout: u32,
        /// Who wrote it.
        version: String,
        /// This version.
        ours: &'static str,
        /// The newest layout that this version knows.
        known: u32,
    },
    /// A newer version has written the state.
    #[error(
        "{}: the state came of log entries of version {version}, this server knows up to {known}: start the newer version \
         again",
        dir.display()
    )]
    NewerState {
        /// Where it is.
        dir: PathBuf,
        /// Of the entries.
        version: u8,
        /// The newest that is known here.
        known: u8,
    },
    /// A newer version has written a snapshot, which is whole.
    #[error("{}: written by a newer version: {what}: start the newer version again", file.display())]
    NewerSnapshot {
        /// The snapshot.
        file: PathBuf,
        /// Its format, and the newest that is known here.
        what: String,
    },
    /// What was kept is not there as it was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The disk does not let us read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The disk does not let us write.
    #[error("write {}: {source}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The consensus engine did not start, or no leader was found.
    #[error("start consensus: {0}")]
    Consensus(String),
}

impl OpenError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

/// An entry was not acknowledged. The two kinds must be distinguished: what was not written can be proposed again, what is
/// unknown must not be, because both may be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// It is in no server's log, and will never be applied.
    #[error("propose entry: {0}")]
    NotWritten(#[from] NotWritten),
    /// It may be applied one day, or be there after a restart, or never be seen again.
    #[error("propose entry: {0}")]
    Unknown(#[from] UnknownOutcome),
}

/// Why an entry is in no server's log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotWritten {
    /// Propose less at a time.
    #[error("it has {bytes} bytes, at most {max} are allowed")]
    TooLarge {
        /// Of the entry, encoded.
        bytes: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// Free space; writes go on by themselves then.
    #[error(transparent)]
    DiskFull(#[from] DiskFull),
    /// Another server leads, or none.
    #[error("this server does not lead{}", leader.map_or(String::new(), |id| format!(", server {id} does")))]
    NotLeader {
        /// Who does, as far as this server knows.
        leader: Option<u64>,
    },
    /// Another server could not apply it.
    #[error("it needs entries of the log of version {entry}, and {held_by}: upgrade it first")]
    TooNew {
        /// Version of the proposed entry.
        entry: u8,
        /// Who does not know it.
        held_by: String,
    },
}

/// Why nobody knows what becomes of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownOutcome {
    /// Another server has taken over meanwhile; whether it has the entry is not known here.
    #[error("leadership was lost before it was committed, it may still be applied")]
    LeadershipLost,
    /// The log can no longer be written; how much of the entry is on disk is found out at the next start.
    #[error("the log has stopped: {0}")]
    Stopped(String),
}

/// A read cannot be made linearizable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Another server leads.
    #[error("read: this server does not lead{}", leader.map_or(String::new(), |id| format!(", server {id} does")))]
    NotLeader {
        /// Who does, as far as this server knows.
        leader: Option<u64>,
    },
    /// Too few servers answer.
    #[error("read: {0}")]
    NoQuorum(String),
    /// The log can no longer be written.
    #[error("read: the log has stopped: {0}")]
    Stopped(String),
}

/// No snapshot was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The log can no longer be written.
    #[error("write snapshot: the log has stopped: {0}")]
    Stopped(String),
    /// There is no space for it, or it could not be read back. The log keeps what it would have covered.
    #[error("write snapshot: {0}")]
    Failed(String),
}

/// The log did not end in order; what was acknowledged is safe all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stop log: {0}")]
pub struct ShutdownError(pub(crate) String);

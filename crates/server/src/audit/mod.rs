//! The audit log: who changed or read what, and what came of it, in lines that are chained by hashes. Room for a line is
//! reserved before a request is carried out, so that a full disk refuses it; a thread writes what has happened, many lines to one
//! sync, and whoever asked for a change is answered once its line is on disk.

mod chain;
mod line_reader;
mod log;
mod record;
mod recover;
mod refusals;
#[cfg(test)]
mod tests;
mod trail;
mod verify;
mod writer;

use std::{path::PathBuf, time::Duration};

pub use chain::ChainHash;
pub(crate) use log::{AuditLog, NotRecorded, Reservation};
pub(crate) use record::{
    AuditCaller, AuditChange, AuditOperation, EndRecord, RequestRecord, TokenOwner, cut, fields_without_http,
    now,
};
pub use verify::{LineFault, LogProblem, VerifiedLog, verify};

/// How a server keeps its audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfig {
    /// Where its files are.
    pub dir: PathBuf,
    /// When a file has grown to this, the next is begun.
    pub file_bytes_max: u64,
    /// Files that are kept, the newest included.
    pub files_max: usize,
    /// How old a file is at the least that is removed, however many there are.
    pub keep: Duration,
    /// Whether reads are recorded that reveal no secrets: lists, statuses and the like.
    pub all_reads: bool,
}

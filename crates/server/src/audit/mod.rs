//! The audit log: who changed or read what, and the outcome, in lines that are chained by hashes. Space for a line is reserved before a
//! request is executed, so that requests are refused when the disk is full. A thread writes the records, many with one sync, and a
//! change is answered once its record is on disk.

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
    /// The next file is begun once a file has this size.
    pub file_bytes_max: u64,
    /// Files that are kept, the newest included.
    pub files_max: usize,
    /// Files that are younger than this are not removed, however many there are.
    pub keep: Duration,
    /// Whether reads are recorded that reveal no secrets: lists, statuses and the like.
    pub all_reads: bool,
}

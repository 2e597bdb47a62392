//! What the log counts while it runs.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// What has happened since the log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metrics {
    /// Entries applied at the start, beyond the snapshot.
    pub replayed_entries: u64,
    /// Records appended, those of the consensus engine included.
    pub log_entries: u64,
    /// Written to segments, headers and padding included, and without the zeros written ahead.
    pub appended_bytes: u64,
    /// Syncs of segments, one or more for each batch of records.
    pub fsyncs: u64,
    /// How long the last of them took.
    pub fsync_last: Duration,
    /// Snapshots written.
    pub snapshots: u64,
    /// What can be written to the log's disk, in bytes; 0 when it cannot be asked.
    pub disk_free_bytes: u64,
    /// The size of that disk, in bytes.
    pub disk_total_bytes: u64,
}

/// The live side of [`Metrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    replayed_entries: AtomicU64,
    log_entries: AtomicU64,
    appended_bytes: AtomicU64,
    fsyncs: AtomicU64,
    fsync_last_ns: AtomicU64,
    snapshots: AtomicU64,
}

impl Counters {
    pub fn on_replayed(&self, entries: u64) {
        self.replayed_entries.store(entries, Relaxed);
    }

    pub fn on_entries(&self, entries: u64) {
        self.log_entries.fetch_add(entries, Relaxed);
    }

    pub fn on_sync(&self, bytes: u64, took: Duration) {
        self.appended_bytes.fetch_add(bytes, Relaxed);
        self.fsyncs.fetch_add(1, Relaxed);
        self.fsync_last_ns.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub fn on_snapshot(&self) {
        self.snapshots.fetch_add(1, Relaxed);
    }

    pub fn read(&self) -> Metrics {
        Metrics {
            replayed_entries: self.replayed_entries.load(Relaxed),
            log_entries: self.log_entries.load(Relaxed),
            appended_bytes: self.appended_bytes.load(Relaxed),
            fsyncs: self.fsyncs.load(Relaxed),
            fsync_last: Duration::from_nanos(self.fsync_last_ns.load(Relaxed)),
            snapshots: self.snapshots.load(Relaxed),
            ..Metrics::default()
        }
    }
}

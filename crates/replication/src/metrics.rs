//! What the log counts while it runs.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::sync_pace::SyncPace;

/// Upper bounds of what syncs are counted by, in microseconds; longer ones are counted by themselves.
pub const SYNC_BOUNDS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000,
];

/// How long syncs took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncTimes {
    /// How many took no longer than each of [`SYNC_BOUNDS_US`] and longer than the one before it; the last took longer
    /// than all.
    pub counts: [u64; SYNC_BOUNDS_US.len() + 1],
    /// Sum over all syncs.
    pub sum: Duration,
}

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
    /// How long they took.
    pub fsync_times: SyncTimes,
    /// How long a sync takes, when the disk is too slow to lead on.
    pub fsync_slow: Option<Duration>,
    /// Snapshots written.
    pub snapshots: u64,
    /// Size of the newest snapshot, in bytes; 0 before the first.
    pub snapshot_bytes: u64,
    /// Payload bytes applied since the last snapshot was begun: what a start has to apply.
    pub since_snapshot_bytes: u64,
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
    fsync_counts: [AtomicU64; SYNC_BOUNDS_US.len() + 1],
    fsync_sum_ns: AtomicU64,
    pace: Mutex<SyncPace>,
    snapshots: AtomicU64,
}

impl Counters {
    pub fn on_replayed(&self, entries: u64) {
        self.replayed_entries.store(entries, Relaxed);
    }

    pub fn on_entries(&self, entries: u64) {
        self.log_entries.fetch_add(entries, Relaxed);
    }

    /// A sync begins; `now` is the time of the runtime's clock.
    pub fn on_sync_begun(&self, now: Duration) {
        self.pace().on_begun(now);
    }

    /// The sync that began has made so many bytes durable.
    pub fn on_synced(&self, bytes: u64, now: Duration, took: Duration) {
        self.appended_bytes.fetch_add(bytes, Relaxed);
        self.fsyncs.fetch_add(1, Relaxed);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = SYNC_BOUNDS_US.partition_point(|bound| *bound < took_us);
        self.fsync_counts[bucket].fetch_add(1, Relaxed);
        self.fsync_sum_ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.pace().on_done(now, took);
    }

    /// How long a sync takes, when the disk is too slow to lead on.
    pub fn slow_sync(&self, now: Duration) -> Option<Duration> {
        self.pace().slow(now)
    }

    /// How long the last syncs took in the mean; none before the first.
    pub fn mean_sync(&self) -> Option<Duration> {
        self.pace().mean()
    }

    fn pace(&self) -> MutexGuard<'_, SyncPace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn on_snapshot(&self) {
        self.snapshots.fetch_add(1, Relaxed);
    }

    pub fn read(&self, now: Duration) -> Metrics {
        let counts = std::array::from_fn(|bucket| self.fsync_counts[bucket].load(Relaxed));
        let sum = Duration::from_nanos(self.fsync_sum_ns.load(Relaxed));
        Metrics {
            replayed_entries: self.replayed_entries.load(Relaxed),
            log_entries: self.log_entries.load(Relaxed),
            appended_bytes: self.appended_bytes.load(Relaxed),
            fsyncs: self.fsyncs.load(Relaxed),
            fsync_times: SyncTimes { counts, sum },
            fsync_slow: self.slow_sync(now),
            snapshots: self.snapshots.load(Relaxed),
            ..Metrics::default()
        }
    }
}

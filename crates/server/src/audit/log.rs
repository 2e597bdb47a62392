//! The interface of the audit log for requests: space is reserved, a record is handed over, and callers that need it learn when
//! the record is synced.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::{Notify, oneshot};

use super::{AuditConfig, record::RECORD_BYTES_MAX, refusals::Refusals, trail::Trail, writer};
use crate::{
    histogram::Histogram,
    shared::{Measured, Metric},
};

/// How long a request waits for its record to be synced.
const DISK_WAIT_MAX: Duration = Duration::from_secs(30);
/// Once a write has taken this long, reservations are refused: requests that waited would only hold their connections.
const STALL_MAX: Duration = Duration::from_secs(10);
/// How often it is checked whether the writer has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The audit log of a server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AuditLog {
    inner: Arc<Inner>,
    /// While a write takes longer than this, the disk counts as hung, and reservations are refused.
    stall_max: Duration,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<AuditShared>,
    config: AuditConfig,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What requests and the writer share.
#[derive(Debug, Default)]
pub(super) struct AuditShared {
    pub queue: Mutex<AuditQueue>,
    /// There is something for the writer to do.
    pub work: Condvar,
    /// There is more space, or it is known that there is none.
    pub space_changed: Notify,
    pub counters: AuditCounters,
    /// Whether the disk is to do nothing.
    #[cfg(test)]
    pub hangs: std::sync::atomic::AtomicBool,
    /// Whether the writer waits for a disk that does nothing.
    #[cfg(test)]
    pub is_hung: std::sync::atomic::AtomicBool,
}

/// Records that wait for the writer, and the space that is left.
#[derive(Debug, Default)]
pub(super) struct AuditQueue {
    pub records: Vec<AuditRecord>,
    /// Space that is not reserved, in bytes.
    pub free: u64,
    /// Space that requests have reserved, records that are not written included, in bytes.
    pub reserved: u64,
    /// Space that requests wait for, in bytes.
    pub wanted: u64,
    /// Since when the writer has been waiting for the disk.
    pub writing_since: Option<Instant>,
    /// Why nothing can be written.
    pub failure: Option<String>,
    pub stop: bool,
    pub refusals: Refusals,
}

/// A record for the writer.
#[derive(Debug)]
pub(super) struct AuditRecord {
    pub fields: Vec<u8>,
    /// Receives whether it is on disk.
    pub on_disk: Option<oneshot::Sender<Result<(), String>>>,
}

/// Metrics of the log.
#[derive(Debug, Default)]
pub(super) struct AuditCounters {
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    pub refused: AtomicU64,
    pub left_out: AtomicU64,
    pub failing: AtomicU64,
    pub removed_young: AtomicU64,
    pub syncs: Histogram,
}

/// A record cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotRecorded(String);

/// Reserved space for one line, which is released when this is dropped without a record.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// None once the record has been handed over, and the space with it.
    shared: Option<Arc<AuditShared>>,
}

impl AuditShared {
    pub fn queue(&self) -> MutexGuard<'_, AuditQueue> {
        self.queue.lock().expect("nothing panics while it holds this lock")
    }
}

impl AuditShared {
    /// From now on nothing can be written, for that reason.
    pub fn fail(&self, queue: &mut AuditQueue, failure: String) {
        if queue.failure.is_none() {
            tracing::error!(
                error = failure,
                "the audit log cannot be written: what must be recorded is refused"
            );
        }
        self.counters.failing.store(1, Relaxed);
        queue.failure = Some(failure);
    }

    /// A disk that does nothing.
    #[cfg(test)]
    pub fn wait_while_it_hangs(&self) {
        while self.hangs.load(Relaxed) {
            self.is_hung.store(true, Relaxed);
            std::thread::sleep(POLL_INTERVAL);
        }
        self.is_hung.store(false, Relaxed);
    }
}

impl AuditQueue {
    fn is_stalled(&self, stall_max: Duration) -> bool {
        self.writing_since.is_some_and(|since| since.elapsed() >= stall_max)
    }
}

/// Space that somebody waits for, until this is dropped.
struct WantedSpace<'s>(&'s AuditShared);

impl<'s> WantedSpace<'s> {
    fn begin(shared: &'s AuditShared) -> Self {
        shared.queue().wanted += RECORD_BYTES_MAX as u64;
        shared.work.notify_one();
        Self(shared)
    }
}

impl Drop for WantedSpace<'_> {
    fn drop(&mut self) {
        self.0.queue().wanted -= RECORD_BYTES_MAX as u64;
    }
}

impl AuditLog {
    /// Opens the log of a directory, or creates it.
    pub fn open(config: AuditConfig, server: &str) -> io::Result<Self> {
        let mut trail = Trail::open(&config, server)?;
        let shared = Arc::new(AuditShared::default());
        shared.queue().free = trail.free_bytes();
        if let Some(failure) = trail.take_failure() {
            shared.fail(&mut shared.queue(), failure.to_string());
        }
        let thread = writer::start(trail, shared.clone())?;
        let inner = Arc::new(Inner { shared, config, thread: Mutex::new(Some(thread)) });
        Ok(Self { inner, stall_max: STALL_MAX })
    }

    /// Whether reads are recorded that reveal no secrets.
    pub fn records_all_reads(&self) -> bool {
        self.inner.config.all_reads
    }

    /// Reserves space for one line, once there is some.
    ///
    /// # Errors
    /// When there is none, or nothing can be written: with the reason and what to do.
    pub async fn reserve(&self) -> Result<Reservation, NotRecorded> {
        let shared = &self.inner.shared;
        let reservation = async {
            let mut wanted_space = None;
            loop {
                // Registered before the check, so that no change in between is missed.
                let changed = shared.space_changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(outcome) = self.try_reserve().transpose() {
                    return outcome;
                }
                if wanted_space.is_none() {
                    wanted_space = Some(WantedSpace::begin(shared));
                    continue;
                }
                let _ = tokio::time::timeout(self.time_to_stall(), changed).await;
            }
        };
        let late = || NotRecorded(format!("its disk has done nothing for {} s", DISK_WAIT_MAX.as_secs()));
        let reservation =
            tokio::time::timeout(DISK_WAIT_MAX, reservation).await.unwrap_or_else(|_| Err(late()));
        reservation.map_err(|NotRecorded(why)| {
            shared.counters.refused.fetch_add(1, Relaxed);
            NotRecorded(format!(
                "the audit log in {} cannot be written, and this request must be recorded there: {why}; make room on that disk \
                 or mend it, and the server goes on by itself; --audit-dir keeps the log elsewhere",
                self.inner.config.dir.display()
            ))
        })
    }

    /// Reserves space for one line, if there is some now.
    pub fn reserve_now(&self) -> Option<Reservation> {
        self.try_reserve().ok().flatten()
    }

    /// None when there is no space yet, and the writer was woken to allocate some.
    fn try_reserve(&self) -> Result<Option<Reservation>, NotRecorded> {
        let shared = &self.inner.shared;
        let bytes = RECORD_BYTES_MAX as u64;
        let mut queue = shared.queue();
        if let Some(failure) = &queue.failure {
            return Err(NotRecorded(failure.clone()));
        }
        if queue.stop {
            return Err(NotRecorded("the server is stopping".to_owned()));
        }
        if queue.is_stalled(self.stall_max) {
            return Err(NotRecorded(format!("its disk has done nothing for {} s", self.stall_max.as_secs())));
        }
        if queue.free < bytes {
            shared.work.notify_one();
            return Ok(None);
        }
        queue.free -= bytes;
        queue.reserved += bytes;
        // So that the next requests find space.
        if queue.free < writer::LOW_BYTES {
            shared.work.notify_one();
        }
        Ok(Some(Reservation { shared: Some(shared.clone()) }))
    }

    /// Time until the disk counts as stalled, so that whoever waits for space checks again then.
    fn time_to_stall(&self) -> Duration {
        let writing = self.inner.shared.queue().writing_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.stall_max.saturating_sub(writing) + Duration::from_millis(1)
    }

    /// Reserves space for the record of a refusal; none when there is no space, or the address had too many. Such a refusal is counted, and
    /// a later record has the count.
    pub fn reserve_for_refusal(&self, address: Option<IpAddr>) -> Option<Reservation> {
        let takes = self.inner.shared.queue().refusals.takes(address, Instant::now());
        let line = takes.then(|| self.reserve_now()).flatten();
        if line.is_none() {
            self.inner.shared.counters.left_out.fetch_add(1, Relaxed);
            if takes {
                self.inner.shared.queue().refusals.leave_out(address, Instant::now());
            }
        }
        line
    }

    /// Whether a refusal that has a reservation is recorded on its own; otherwise it is counted.
    pub fn takes_refusal(&self, address: Option<IpAddr>) -> bool {
        let takes = self.inner.shared.queue().refusals.takes(address, Instant::now());
        self.inner.shared.counters.left_out.fetch_add(u64::from(!takes), Relaxed);
        takes
    }

    /// The same for tests that have less patience.
    #[cfg(test)]
    pub fn with_stall_max(self, stall_max: Duration) -> Self {
        Self { stall_max, ..self }
    }

    /// Has its disk do nothing, until what is returned is dropped. What was under way at the disk has ended.
    #[cfg(test)]
    pub fn hang(&self) -> impl Drop + use<> {
        struct Hung(Arc<AuditShared>);
        impl Drop for Hung {
            fn drop(&mut self) {
                self.0.hangs.store(false, Relaxed);
            }
        }
        let shared = &self.inner.shared;
        shared.hangs.store(true, Relaxed);
        while shared.queue().writing_since.is_some() && !shared.is_hung.load(Relaxed) {
            std::thread::sleep(POLL_INTERVAL);
        }
        Hung(shared.clone())
    }

    /// Space that requests wait for, in bytes.
    #[cfg(test)]
    pub fn wanted(&self) -> u64 {
        self.inner.shared.queue().wanted
    }

    /// Reserves all space that is left.
    #[cfg(test)]
    pub fn reserve_all(&self) -> Vec<Reservation> {
        std::iter::from_fn(|| self.reserve_now()).collect()
    }

    /// Ends the log once the queued records are written, unless the disk hangs.
    pub fn close(&self) {
        self.inner.shared.queue().stop = true;
        self.inner.shared.work.notify_one();
        let mut thread = self.inner.thread.lock().expect("nothing panics while it holds this lock");
        let Some(writer) = thread.take() else { return };
        let started_at = Instant::now();
        while !writer.is_finished() && started_at.elapsed() < self.stall_max {
            std::thread::sleep(POLL_INTERVAL);
        }
        if !writer.is_finished() {
            tracing::error!("the audit log's disk hangs: the server ends without its last records");
            *thread = Some(writer);
        } else if writer.join().is_err() {
            tracing::error!("the audit log's writer panicked");
        }
    }

    /// The metrics of the log.
    pub fn metrics(&self) -> Vec<Metric> {
        let counters = &self.inner.shared.counters;
        let total = |name, help, value: &AtomicU64| {
            Metric::one(name, help, Measured::Counter(value.load(Relaxed) as f64))
        };
        let is_stalled = self.inner.shared.queue().is_stalled(self.stall_max);
        let failing = counters.failing.load(Relaxed).max(is_stalled.into());
        let failing = Measured::Gauge(failing as f64);
        vec![
            total("berth_audit_records_total", "lines written to the audit log", &counters.records),
            total("berth_audit_bytes_total", "bytes written to the audit log", &counters.bytes),
            total(
                "berth_audit_refused_total",
                "requests refused because the audit log could not be written",
                &counters.refused,
            ),
            total(
                "berth_audit_refusals_left_out_total",
                "refused requests without a line of their own, because there were too many",
                &counters.left_out,
            ),
            total(
                "berth_audit_young_files_removed_total",
                "files of the audit log that were removed within a day of their last line",
                &counters.removed_young,
            ),
            Metric::one("berth_audit_failing", "1 while the audit log cannot be written", failing),
            Metric::one(
                "berth_audit_fsync_seconds",
                "time in which lines of the audit log are written and synced",
                Measured::Spread(counters.syncs.read()),
            ),
        ]
    }
}

impl Reservation {
    /// Queues a record to be written.
    pub fn record(self, fields: Vec<u8>) {
        self.hand_over(fields, None);
    }

    /// Queues a record, and returns once it is on disk.
    ///
    /// # Errors
    /// When it is not. It stays queued, and is written later if possible.
    pub async fn record_synced(self, fields: Vec<u8>) -> Result<(), NotRecorded> {
        let (on_disk, synced) = oneshot::channel();
        self.hand_over(fields, Some(on_disk));
        match tokio::time::timeout(DISK_WAIT_MAX, synced).await {
            Ok(Ok(outcome)) => outcome.map_err(NotRecorded),
            Ok(Err(_)) => Err(NotRecorded("the server is stopping".to_owned())),
            Err(_) => {
                Err(NotRecorded(format!("its disk has done nothing for {} s", DISK_WAIT_MAX.as_secs())))
            }
        }
    }

    fn hand_over(mut self, fields: Vec<u8>, on_disk: Option<oneshot::Sender<Result<(), String>>>) {
        debug_assert!(fields.len() + super::chain::LINE_EXTRA_BYTES <= RECORD_BYTES_MAX);
        let Some(shared) = self.shared.take() else { return };
        let mut queue = shared.queue();
        queue.records.push(AuditRecord { fields, on_disk });
        if queue.records.len() == 1 {
            shared.work.notify_one();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.queue().stop = true;
        self.shared.work.notify_one();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        let mut queue = shared.queue();
        queue.reserved -= RECORD_BYTES_MAX as u64;
        queue.free += RECORD_BYTES_MAX as u64;
        if queue.wanted > 0 {
            shared.space_changed.notify_waiters();
        }
    }
}

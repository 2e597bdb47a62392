//! The log as requests see it: room is reserved, then what happened is told, and whoever must knows when that is on disk.

use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::{Notify, oneshot};

use super::{AuditConfig, record::RECORD_BYTES_MAX, trail::Trail, writer};
use crate::{
    histogram::Histogram,
    state::{Measured, Metric},
};

/// A disk that does nothing for so long counts as failing.
const DISK_WAIT_MAX: Duration = Duration::from_secs(30);
/// Refusals that are recorded a second: beyond these they are counted, so that nobody can have the log rotate away by asking for
/// what he may not have.
pub(super) const REFUSALS_A_SECOND_MAX: u64 = 100;

/// The audit log of a server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AuditLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    config: AuditConfig,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What requests and the writer share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub desk: Mutex<Desk>,
    /// There is something for the writer to do.
    pub work: Condvar,
    /// There is more room, or it is known that there is none.
    pub room: Notify,
    pub counters: Counters,
}

/// What waits for the writer, and the room that there is.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub told: Vec<Told>,
    /// Room that nobody has reserved, in bytes.
    pub free: u64,
    /// Room that requests have reserved, told ones that are not written included.
    pub reserved: u64,
    /// Room that requests wait for.
    pub wanted: u64,
    /// Why nothing can be written.
    pub trouble: Option<String>,
    pub stop: bool,
    refusals: Refusals,
}

/// A record for the writer.
#[derive(Debug)]
pub(super) struct Told {
    pub fields: Vec<u8>,
    /// Told once it is on disk, or that it is not.
    pub on_disk: Option<oneshot::Sender<Result<(), String>>>,
}

/// What is measured.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    pub refused: AtomicU64,
    pub left_out: AtomicU64,
    pub failing: AtomicU64,
    pub syncs: Histogram,
}

/// How many refusals were recorded lately.
#[derive(Debug, Default)]
struct Refusals {
    second: Option<Instant>,
    recorded: u64,
    /// Since the last record that said so.
    left_out: u64,
}

/// What happened cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Untold(String);

/// Room for one line. It is given back when this is dropped without telling anything.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// None once the record has been handed over, and the room with it.
    shared: Option<Arc<Shared>>,
}

impl Shared {
    pub fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().expect("nothing panics while it holds this lock")
    }
}

impl AuditLog {
    /// Goes on with the log of a directory, or begins it.
    pub fn open(config: AuditConfig, server: &str) -> io::Result<Self> {
        let trail = Trail::open(&config, server)?;
        let shared = Arc::new(Shared::default());
        shared.desk().free = trail.room();
        let thread = writer::start(trail, shared.clone())?;
        Ok(Self(Arc::new(Inner { shared, config, thread: Mutex::new(Some(thread)) })))
    }

    /// Whether reads are recorded that tell no secrets.
    pub fn records_all_reads(&self) -> bool {
        self.0.config.all_reads
    }

    /// Room for one line, once there is some.
    ///
    /// # Errors
    /// When there is none, or nothing can be written: with the reason and the way out.
    pub async fn reserve(&self) -> Result<Reservation, Untold> {
        let shared = &self.0.shared;
        let reserved = async {
            loop {
                // Before it is looked, so that what comes in between is heard.
                let changed = shared.room.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(reserved) = self.try_reserve().transpose() {
                    return reserved;
                }
                changed.await;
            }
        };
        let late = || Untold(format!("its disk has done nothing for {} s", DISK_WAIT_MAX.as_secs()));
        let reserved = tokio::time::timeout(DISK_WAIT_MAX, reserved).await.unwrap_or_else(|_| Err(late()));
        reserved.map_err(|Untold(why)| {
            shared.counters.refused.fetch_add(1, Relaxed);
            Untold(format!(
                "the audit log in {} cannot be written, and this request must be recorded there: {why}; make room on that disk \
                 or mend it, and the server goes on by itself; --audit-dir keeps the log elsewhere",
                self.0.config.dir.display()
            ))
        })
    }

    /// Room for one line, if there is some at once.
    pub fn reserve_now(&self) -> Option<Reservation> {
        self.try_reserve().ok().flatten()
    }

    /// None where the writer has yet to say whether there is room.
    fn try_reserve(&self) -> Result<Option<Reservation>, Untold> {
        let shared = &self.0.shared;
        let bytes = RECORD_BYTES_MAX as u64;
        let mut desk = shared.desk();
        if let Some(trouble) = &desk.trouble {
            return Err(Untold(trouble.clone()));
        }
        if desk.stop {
            return Err(Untold("the server is stopping".to_owned()));
        }
        if desk.free < bytes {
            desk.wanted += bytes;
            shared.work.notify_one();
            return Ok(None);
        }
        desk.free -= bytes;
        desk.reserved += bytes;
        // Those who come next find room then.
        if desk.free < writer::LOW_BYTES {
            shared.work.notify_one();
        }
        Ok(Some(Reservation { shared: Some(shared.clone()) }))
    }

    /// Whether one more refusal may be recorded now. Those that may not are counted, and said in a later record.
    pub fn takes_refusal(&self) -> bool {
        let mut desk = self.0.shared.desk();
        let refusals = &mut desk.refusals;
        let now = Instant::now();
        if refusals.second.is_none_or(|begun| now.duration_since(begun) >= Duration::from_secs(1)) {
            (refusals.second, refusals.recorded) = (Some(now), 0);
        }
        let takes = refusals.recorded < REFUSALS_A_SECOND_MAX;
        if takes {
            refusals.recorded += 1;
        } else {
            refusals.left_out += 1;
            self.0.shared.counters.left_out.fetch_add(1, Relaxed);
        }
        takes
    }

    /// How many refusals have no record since this was asked last.
    pub fn refusals_left_out(&self) -> u64 {
        std::mem::take(&mut self.0.shared.desk().refusals.left_out)
    }

    /// Ends the log: what was told is written.
    pub fn close(&self) {
        self.0.shared.desk().stop = true;
        self.0.shared.work.notify_one();
        let thread = self.0.thread.lock().expect("nothing panics while it holds this lock").take();
        if let Some(Err(_)) = thread.map(JoinHandle::join) {
            tracing::error!("the audit log's writer panicked");
        }
    }

    /// What is measured of it.
    pub fn metrics(&self) -> Vec<Metric> {
        let counters = &self.0.shared.counters;
        let total = |name, help, value: &AtomicU64| {
            Metric::one(name, help, Measured::Counter(value.load(Relaxed) as f64))
        };
        let failing = Measured::Gauge(counters.failing.load(Relaxed) as f64);
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
    /// Has a record written soon.
    pub fn tell(self, fields: Vec<u8>) {
        self.hand_over(fields, None);
    }

    /// Has a record written, and returns once it is on disk.
    ///
    /// # Errors
    /// When it is not. It is kept and written later, if it can be.
    pub async fn tell_and_wait(self, fields: Vec<u8>) -> Result<(), Untold> {
        let (on_disk, written) = oneshot::channel();
        self.hand_over(fields, Some(on_disk));
        match tokio::time::timeout(DISK_WAIT_MAX, written).await {
            Ok(Ok(written)) => written.map_err(Untold),
            Ok(Err(_)) => Err(Untold("the server is stopping".to_owned())),
            Err(_) => Err(Untold(format!("its disk has done nothing for {} s", DISK_WAIT_MAX.as_secs()))),
        }
    }

    fn hand_over(mut self, fields: Vec<u8>, on_disk: Option<oneshot::Sender<Result<(), String>>>) {
        debug_assert!(fields.len() + super::chain::LINE_EXTRA_BYTES <= RECORD_BYTES_MAX);
        let Some(shared) = self.shared.take() else { return };
        let mut desk = shared.desk();
        desk.told.push(Told { fields, on_disk });
        if desk.told.len() == 1 {
            shared.work.notify_one();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.desk().stop = true;
        self.shared.work.notify_one();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        let mut desk = shared.desk();
        desk.reserved -= RECORD_BYTES_MAX as u64;
        desk.free += RECORD_BYTES_MAX as u64;
    }
}

//! The writer thread: all records since its last write go to disk in one batch.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use super::{
    log::{AuditQueue, AuditRecord, AuditShared},
    record::{RECORD_BYTES_MAX, RefusalsRecord, StopRecord, fields},
    refusals::UnlistedRefusals,
    trail::{AHEAD_BYTES, Trail},
};

/// When less space than this is free, more is allocated.
pub(super) const LOW_BYTES: u64 = AHEAD_BYTES / 2;
/// How long records may stay unsynced when nobody waits for their sync.
const LAZY_SYNC: Duration = Duration::from_secs(1);
/// Of these, in bytes.
const LAZY_BYTES_MAX: usize = 1 << 20;
/// How often a failed write or allocation is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Starts the writer thread.
pub(super) fn start(trail: Trail, shared: Arc<AuditShared>) -> io::Result<JoinHandle<()>> {
    // What could not be written when it was opened is tried again soon.
    let lazy_since = (trail.unsynced_bytes() > 0).then(Instant::now);
    let writer = AuditWriter { trail, shared, lazy_since, cramped_since: None, waits: Vec::new() };
    Builder::new().name("audit".to_owned()).spawn(|| writer.run())
}

struct AuditWriter {
    trail: Trail,
    shared: Arc<AuditShared>,
    /// Since when there have been lines that are not known to be on disk.
    lazy_since: Option<Instant>,
    /// When the disk was found to have less free space than should be allocated ahead.
    cramped_since: Option<Instant>,
    /// Those who are informed once what has been written is on disk.
    waits: Vec<tokio::sync::oneshot::Sender<Result<(), String>>>,
}

impl AuditQueue {
    /// Lines that fit into the space that is not reserved.
    fn free_records(&self) -> usize {
        if self.failure.is_some() {
            0
        } else {
            usize::try_from(self.free / RECORD_BYTES_MAX as u64).unwrap_or(0)
        }
    }

    /// Adds lines for refusals that have none of their own, as many as fit.
    fn record_refusals(&mut self) {
        let due = self.refusals.due(self.stop, self.free_records(), Instant::now());
        let bytes = (due.len() * RECORD_BYTES_MAX) as u64;
        (self.free, self.reserved) = (self.free - bytes, self.reserved + bytes);
        let now = SystemTime::now();
        self.records.extend(due.into_iter().map(|UnlistedRefusals { address, count, since }| {
            let time = |at| humantime::format_rfc3339_micros(at).to_string();
            let since = time(now - since.elapsed());
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            AuditRecord {
                fields: fields(&RefusalsRecord { time: time(now), address, count, since }),
                on_disk: None,
            }
        }));
    }
}

impl AuditWriter {
    fn run(mut self) {
        loop {
            let (records, wanted, stop) = self.next();
            let count = records.len() as u64;
            self.add(records);
            if stop {
                self.trail.push(&fields(&StopRecord {}));
            }
            #[cfg(test)]
            self.shared.wait_while_it_hangs();
            let before = self.trail.unsynced_bytes() as u64;
            let written = self.write(stop);
            let written = written.and_then(|()| self.reserve_ahead(count, wanted));
            self.shared.counters.records.fetch_add(count, Relaxed);
            if count > 0 {
                self.shared.counters.bytes.fetch_add(before, Relaxed);
            }
            self.settle(count, written);
            if stop {
                return;
            }
        }
    }

    /// What there is to do, once there is something.
    fn next(&self) -> (Vec<AuditRecord>, u64, bool) {
        let mut queue = self.shared.queue();
        loop {
            let lazy = self.lazy_since.map(|since| LAZY_SYNC.saturating_sub(since.elapsed()));
            let retry = queue.failure.is_some().then_some(RETRY);
            let tally = if queue.free_records() > 0 { queue.refusals.due_in(Instant::now()) } else { None };
            let is_due = lazy.is_some_and(|left| left.is_zero());
            // After a failure all are refused but those who have their reservation already.
            let is_short = queue.wanted > queue.free || (queue.free < LOW_BYTES && !self.is_cramped());
            let is_short = is_short && queue.failure.is_none();
            let is_tally_due = tally.is_some_and(|left| left.is_zero());
            if !queue.records.is_empty() || is_short || is_due || is_tally_due || queue.stop {
                break;
            }
            match retry.into_iter().chain(lazy).chain(tally).min() {
                None => {
                    queue = self.shared.work.wait(queue).expect("nothing panics while it holds this lock")
                }
                Some(wait) => {
                    let waited = self.shared.work.wait_timeout(queue, wait);
                    let (woken, timeout) = waited.expect("nothing panics while it holds this lock");
                    queue = woken;
                    if timeout.timed_out() {
                        break;
                    }
                }
            }
        }
        queue.record_refusals();
        queue.writing_since = Some(Instant::now());
        (std::mem::take(&mut queue.records), queue.wanted, queue.stop)
    }

    fn add(&mut self, records: Vec<AuditRecord>) {
        for AuditRecord { fields, on_disk } in records {
            self.trail.push(&fields);
            self.waits.extend(on_disk);
        }
    }

    /// Writes what was added, and has it on disk where somebody waits for that, or it has waited for long enough.
    fn write(&mut self, stop: bool) -> io::Result<()> {
        let is_due = self.lazy_since.is_some_and(|since| since.elapsed() >= LAZY_SYNC);
        let sync = stop || is_due || !self.waits.is_empty() || self.trail.unsynced_bytes() > LAZY_BYTES_MAX;
        let begun = Instant::now();
        let written = self.trail.flush(sync);
        if sync {
            self.shared.counters.syncs.record(begun.elapsed());
        }
        let is_synced = self.trail.unsynced_bytes() == 0;
        self.lazy_since = match (is_synced, &written) {
            (true, _) => None,
            (false, Ok(())) => self.lazy_since.or(Some(begun)),
            // It is tried again after a while, and not at once.
            (false, Err(_)) => Some(Instant::now()),
        };
        let outcome = written.as_ref().copied().map_err(ToString::to_string);
        if sync || outcome.is_err() {
            for wait in self.waits.drain(..) {
                let _ = wait.send(outcome.clone());
            }
        }
        written
    }

    /// Whether there was too little space a moment ago.
    fn is_cramped(&self) -> bool {
        self.cramped_since.is_some_and(|since| since.elapsed() < RETRY)
    }

    /// Allocates space for what requests wait for and some more, and begins a next file where this one is full. On a disk that has
    /// less, what there is goes to those who come first.
    fn reserve_ahead(&mut self, records: u64, wanted: u64) -> io::Result<()> {
        let reserved = self.shared.queue().reserved - records * RECORD_BYTES_MAX as u64;
        let needed = reserved + wanted;
        if !self.is_cramped() {
            if self.trail.is_full() && self.rotate(needed + AHEAD_BYTES) {
                return Ok(());
            }
            if self.trail.free_bytes() >= needed + LOW_BYTES {
                return Ok(());
            }
            if self.trail.ensure(needed + AHEAD_BYTES).is_ok() {
                self.cramped_since = None;
                return Ok(());
            }
            self.cramped_since = Some(Instant::now());
        }
        self.trail.ensure(needed + RECORD_BYTES_MAX as u64)
    }

    /// Whether a next file has been begun. While it cannot be this one grows on.
    fn rotate(&mut self, bytes: u64) -> bool {
        let rotated = self.trail.flush(true).and_then(|()| self.trail.rotate(bytes));
        if let Err(error) = &rotated {
            self.cramped_since = Some(Instant::now());
            tracing::warn!(%error, "could not begin the next file of the audit log");
        } else {
            tracing::info!(sequence = self.trail.sequence(), "the audit log goes on in its next file");
            self.shared.counters.removed_young.store(self.trail.removed_young(), Relaxed);
        }
        rotated.is_ok()
    }

    /// Publishes the free space, and whether the log can be written.
    fn settle(&self, records: u64, written: io::Result<()>) {
        let mut queue = self.shared.queue();
        queue.reserved -= records * RECORD_BYTES_MAX as u64;
        queue.free = self.trail.free_bytes().saturating_sub(queue.reserved);
        queue.writing_since = None;
        match written {
            Err(error) => self.shared.fail(&mut queue, error.to_string()),
            Ok(()) => {
                if queue.failure.take().is_some() {
                    tracing::info!("the audit log can be written again");
                }
                self.shared.counters.failing.store(0, Relaxed);
            }
        }
        drop(queue);
        self.shared.space_changed.notify_waiters();
    }
}

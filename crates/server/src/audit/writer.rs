//! The thread that writes: what was recorded since its last write goes to disk together.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use super::{
    log::{AuditRecord, Desk, Shared},
    record::{RECORD_BYTES_MAX, Refused, Stopped, fields},
    refusals::LeftOut,
    trail::{AHEAD_BYTES, Trail},
};

/// When less room than this is free, more is reserved.
pub(super) const LOW_BYTES: u64 = AHEAD_BYTES / 2;
/// How long records of which nobody waits to hear that they are on disk may be written and not synced.
const LAZY_SYNC: Duration = Duration::from_secs(1);
/// Of these, in bytes.
const LAZY_BYTES_MAX: usize = 1 << 20;
/// How often it is tried again to write, or to reserve room, where that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Begins to write.
pub(super) fn start(trail: Trail, shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    // What could not be written when it was opened is tried again soon.
    let lazy_since = (trail.unsynced_bytes() > 0).then(Instant::now);
    let writer = Writer { trail, shared, lazy_since, cramped_since: None, waits: Vec::new() };
    Builder::new().name("audit".to_owned()).spawn(|| writer.run())
}

struct Writer {
    trail: Trail,
    shared: Arc<Shared>,
    /// Since when there have been lines that are not known to be on disk.
    lazy_since: Option<Instant>,
    /// When it was found that the disk has less room than there should be ahead.
    cramped_since: Option<Instant>,
    /// Those who are informed once what has been written is on disk.
    waits: Vec<tokio::sync::oneshot::Sender<Result<(), String>>>,
}

impl Desk {
    /// Lines for which there is room that nobody has reserved.
    fn lines_free(&self) -> usize {
        if self.trouble.is_some() {
            0
        } else {
            usize::try_from(self.free / RECORD_BYTES_MAX as u64).unwrap_or(0)
        }
    }

    /// Adds lines for refusals that have none of their own, as many as there is room for.
    fn tell_refusals(&mut self) {
        let due = self.refusals.due(self.stop, self.lines_free(), Instant::now());
        let room = (due.len() * RECORD_BYTES_MAX) as u64;
        (self.free, self.reserved) = (self.free - room, self.reserved + room);
        let now = SystemTime::now();
        self.told.extend(due.into_iter().map(|LeftOut { address, count, since }| {
            let time = |at| humantime::format_rfc3339_micros(at).to_string();
            let since = time(now - since.elapsed());
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            AuditRecord { fields: fields(&Refused { time: time(now), address, count, since }), on_disk: None }
        }));
    }
}

impl Writer {
    fn run(mut self) {
        loop {
            let (told, wanted, stop) = self.next();
            let count = told.len() as u64;
            self.add(told);
            if stop {
                self.trail.push(&fields(&Stopped {}));
            }
            #[cfg(test)]
            self.shared.wait_while_it_hangs();
            let before = self.trail.unsynced_bytes() as u64;
            let written = self.write(stop);
            let written = written.and_then(|()| self.make_room(count, wanted));
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
        let mut desk = self.shared.desk();
        loop {
            let lazy = self.lazy_since.map(|since| LAZY_SYNC.saturating_sub(since.elapsed()));
            let retry = desk.trouble.is_some().then_some(RETRY);
            let tally = if desk.lines_free() > 0 { desk.refusals.due_in(Instant::now()) } else { None };
            let is_due = lazy.is_some_and(|left| left.is_zero());
            // In trouble all are refused but those who have their room already.
            let is_short = desk.wanted > desk.free || (desk.free < LOW_BYTES && !self.is_cramped());
            let is_short = is_short && desk.trouble.is_none();
            let is_told = tally.is_some_and(|left| left.is_zero());
            if !desk.told.is_empty() || is_short || is_due || is_told || desk.stop {
                break;
            }
            match retry.into_iter().chain(lazy).chain(tally).min() {
                None => desk = self.shared.work.wait(desk).expect("nothing panics while it holds this lock"),
                Some(wait) => {
                    let waited = self.shared.work.wait_timeout(desk, wait);
                    let (woken, timeout) = waited.expect("nothing panics while it holds this lock");
                    desk = woken;
                    if timeout.timed_out() {
                        break;
                    }
                }
            }
        }
        desk.tell_refusals();
        desk.writing_since = Some(Instant::now());
        (std::mem::take(&mut desk.told), desk.wanted, desk.stop)
    }

    fn add(&mut self, told: Vec<AuditRecord>) {
        for AuditRecord { fields, on_disk } in told {
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

    /// Whether there was too little room a moment ago.
    fn is_cramped(&self) -> bool {
        self.cramped_since.is_some_and(|since| since.elapsed() < RETRY)
    }

    /// Reserves room for what requests wait for and some more, and begins a next file where this one is full. On a disk that has
    /// less, what there is goes to those who come first.
    fn make_room(&mut self, told: u64, wanted: u64) -> io::Result<()> {
        let reserved = self.shared.desk().reserved - told * RECORD_BYTES_MAX as u64;
        let needed = reserved + wanted;
        if !self.is_cramped() {
            if self.trail.is_full() && self.rotate(needed + AHEAD_BYTES) {
                return Ok(());
            }
            if self.trail.room() >= needed + LOW_BYTES {
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
    fn rotate(&mut self, room: u64) -> bool {
        let rotated = self.trail.flush(true).and_then(|()| self.trail.rotate(room));
        if let Err(error) = &rotated {
            self.cramped_since = Some(Instant::now());
            tracing::warn!(%error, "begin the next file of the audit log");
        } else {
            tracing::info!(sequence = self.trail.sequence(), "the audit log goes on in its next file");
            self.shared.counters.removed_young.store(self.trail.removed_young(), Relaxed);
        }
        rotated.is_ok()
    }

    /// Says what room there is now, and whether all is well.
    fn settle(&self, told: u64, written: io::Result<()>) {
        let mut desk = self.shared.desk();
        desk.reserved -= told * RECORD_BYTES_MAX as u64;
        desk.free = self.trail.room().saturating_sub(desk.reserved);
        desk.writing_since = None;
        match written {
            Err(error) => self.shared.fail(&mut desk, error.to_string()),
            Ok(()) => {
                if desk.trouble.take().is_some() {
                    tracing::info!("the audit log can be written again");
                }
                self.shared.counters.failing.store(0, Relaxed);
            }
        }
        drop(desk);
        self.shared.room.notify_waiters();
    }
}

//! Space on the disk. Whoever proposes is refused while there is too little of it, and what must be written all the same
//! (votes, and what had been taken in before) has a reserve and then waits, so that a full disk never ends the log.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use crate::disk::{Disk, DiskSpace};

/// How often the disk is looked at, while it has space, in the time in which proposals fill a segment.
const CHECKS_PER_SEGMENT: u64 = 16;
/// In how many parts the reserve is released.
const RESERVE_PARTS: u64 = 16;

/// Too little space on the disk to write more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "disk full: {} free of {} in {}, {} are needed: make room there, and writes go on by themselves",
    Mib(*free), Mib(*total), dir.display(), Mib(*needed)
)]
pub struct DiskFull {
    /// The data directory.
    pub dir: PathBuf,
    /// Bytes that can be written.
    pub free: u64,
    /// Bytes of the whole file system.
    pub total: u64,
    /// Bytes that must be free before anything more is written.
    pub needed: u64,
}

/// Formats bytes as MiB.
struct Mib(u64);

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}

/// Whether an error says that there is no space, on the disk or in its owner's quota.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Watches over the space of a data directory.
pub(crate) struct Space {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Of a segment, of which the next one needs space at any time, and of the reserve.
    segment_bytes: u64,
    /// What the next snapshot is expected to have.
    snapshot_bytes: AtomicU64,
    /// Proposed since the disk was last asked.
    unchecked: AtomicU64,
    /// Proposals were refused when the disk was last asked.
    full: AtomicBool,
    /// A write waits for space right now.
    blocked: AtomicBool,
    /// Writes that find no space wait for it; they fail while the log is opened or closed.
    waits: AtomicBool,
    /// Bytes that the reserve has; held while it is made or released.
    reserved: Mutex<u64>,
}

impl Space {
    /// Looks after `dir`, and makes its reserve if there is space.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, segment_bytes: u64) -> Self {
        let space = Self {
            disk,
            dir: dir.to_owned(),
            segment_bytes,
            snapshot_bytes: AtomicU64::new(0),
            unchecked: AtomicU64::new(segment_bytes),
            full: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            reserved: Mutex::new(0),
        };
        *space.reserved() = space.disk.len(&space.reserve()).unwrap_or(0);
        space.restore_reserve();
        space
    }

    fn reserved(&self) -> MutexGuard<'_, u64> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self) -> PathBuf {
        self.dir.join("reserve")
    }

    /// From now on, writes that find no space wait; or fail again.
    pub fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Relaxed);
    }

    /// The newest snapshot has so many bytes.
    pub fn on_snapshot(&self, bytes: u64) {
        self.snapshot_bytes.store(bytes, Relaxed);
    }

    /// What the next snapshot is expected to have.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot_bytes.load(Relaxed)
    }

    /// Whether `bytes` more may be proposed, beside those that are on their way. Asks the disk now and then while it
    /// has space, and each time while it has not.
    pub fn admit(&self, bytes: u64, in_flight: u64) -> Result<(), DiskFull> {
        let unchecked = self.unchecked.fetch_add(bytes, Relaxed) + bytes;
        if unchecked < self.segment_bytes / CHECKS_PER_SEGMENT
            && !self.full.load(Relaxed)
            && !self.blocked.load(Relaxed)
        {
            return Ok(());
        }
        self.check(in_flight)
    }

    /// Asks the disk whether more may be proposed.
    pub fn check(&self, in_flight: u64) -> Result<(), DiskFull> {
        self.unchecked.store(0, Relaxed);
        // A segment is begun while the next snapshot is written: that needs space too, or the log could never be cut.
        let needed = in_flight + self.segment_bytes + self.snapshot_bytes.load(Relaxed);
        let result = self.fits(needed).and_then(|()| {
            if self.restore_reserve() { Ok(()) } else { self.fits(needed + self.segment_bytes) }
        });
        let was_full = self.full.swap(result.is_err(), Relaxed);
        match &result {
            Err(reason) if !was_full => tracing::error!(%reason, "writes are refused"),
            Ok(()) if was_full => {
                tracing::info!(dir = %self.dir.display(), "the disk has room, writes go on")
            }
            _ => {}
        }
        result
    }

    /// Whether so much can be written now.
    pub fn fits(&self, needed: u64) -> Result<(), DiskFull> {
        // A disk that cannot be asked is not known to be full; writes will show.
        let Ok(DiskSpace { free, total }) = self.disk.space(&self.dir) else { return Ok(()) };
        // While a write waits, a quota may be used up that the disk does not report.
        if free >= needed && !self.blocked.load(Relaxed) {
            return Ok(());
        }
        Err(DiskFull { dir: self.dir.clone(), free, total, needed })
    }

    /// Whether a write waits for space.
    #[cfg(test)]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Relaxed)
    }

    /// What the disk has, if it can be asked.
    pub fn free(&self) -> Option<DiskSpace> {
        self.disk.space(&self.dir).ok()
    }

    /// Whether the reserve is whole, made so if there is space for it.
    fn restore_reserve(&self) -> bool {
        let mut reserved = self.reserved();
        if *reserved < self.segment_bytes
            && self.fits(2 * self.segment_bytes).is_ok()
            && self.disk.allocate(&self.reserve(), self.segment_bytes).is_ok()
        {
            *reserved = self.segment_bytes;
        }
        *reserved >= self.segment_bytes
    }

    /// Releases a part of the reserve, because others may take the rest of what is released; whether there was any.
    fn release_reserve(&self) -> bool {
        let mut reserved = self.reserved();
        if *reserved == 0 {
            return false;
        }
        *reserved = reserved.saturating_sub((self.segment_bytes / RESERVE_PARTS).max(1));
        self.disk.set_len(&self.reserve(), *reserved).is_ok()
    }

    /// Carries out a write that may be repeated: with the reserve's space if there is no other, and otherwise again and
    /// again until there is space.
    pub fn write<T>(&self, mut write: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match write() {
                Err(error) if is_full(&error) => {
                    tracing::warn!(dir = %self.dir.display(), "no room for the log");
                    if !self.release_reserve() {
                        self.wait_for_room(error)?;
                    }
                }
                done => {
                    self.blocked.store(false, Relaxed);
                    return done;
                }
            }
        }
    }

    fn wait_for_room(&self, error: io::Error) -> io::Result<()> {
        if !self.waits.load(Relaxed) {
            return Err(error);
        }
        self.blocked.store(true, Relaxed);
        self.disk.wait_for_room();
        Ok(())
    }
}

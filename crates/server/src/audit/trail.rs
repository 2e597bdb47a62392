//! The files of an audit log: lines are appended to the newest file, into space that was allocated before. A full file is
//! followed by the next one, and the oldest are deleted.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{FallocateFlags, FlockOperation, fallocate, flock, fstatvfs},
    io::Errno,
};

use super::{
    AuditConfig,
    chain::{ChainHash, seal},
    record::{FileRecord, StartRecord, fields},
    recover::{self, Recovered},
};

/// Space that is allocated ahead, so that few requests have to wait for it.
pub(super) const AHEAD_BYTES: u64 = 1 << 20;
/// Where the end of the log is noted.
pub(super) const HEAD: &str = "head";

/// The removal of a younger file is logged: somebody fills the log very fast.
const YOUNG: Duration = Duration::from_secs(24 * 3_600);
/// How often, and in what intervals, the lock is tried.
const HOLD_TRIES: u32 = 50;
const HOLD_PAUSE: Duration = Duration::from_millis(100);

/// The files and the end of the chain.
#[derive(Debug)]
pub(super) struct Trail {
    dir: PathBuf,
    file_bytes_max: u64,
    files_max: usize,
    keep: Duration,
    /// Files that were removed within a day of their last line.
    removed_young: u64,
    file: File,
    /// Of the newest file.
    number: u64,
    /// Bytes of it that are on disk.
    synced: u64,
    /// Lines beyond these, whether or not they have been written: a write that fails is done again.
    unsynced: Vec<u8>,
    /// How many of these bytes have been written.
    written: usize,
    /// Up to where space is allocated, in bytes.
    allocated: u64,
    /// Of the last line.
    sequence: u64,
    hash: ChainHash,
    head: File,
    /// Why its first lines are not on disk yet.
    failure: Option<io::Error>,
}

/// The name of a file.
pub(super) fn name(number: u64) -> String {
    format!("audit-{number:08}.jsonl")
}

/// The number of a file by its name; none of other files.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    (digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// The numbers of a directory's files, in order.
pub(super) fn numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        numbers.extend(entry?.file_name().to_str().and_then(number_of));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

impl Trail {
    /// Opens the log of a directory at its end, or creates one.
    pub fn open(config: &AuditConfig, server: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&config.dir)?;
        step();
        let head = open(&config.dir.join(HEAD), OpenOptions::new().create(true).truncate(false))?;
        hold(&head)?;
        let end = recover::recover(&config.dir)?;
        let number = end.as_ref().map_or(1, |end| end.file);
        let path = config.dir.join(name(number));
        step();
        let file = open(&path, OpenOptions::new().create(true).truncate(false))?;
        let mut trail = Self {
            dir: config.dir.clone(),
            file_bytes_max: config.file_bytes_max,
            files_max: config.files_max,
            keep: config.keep,
            removed_young: 0,
            file,
            number,
            synced: 0,
            unsynced: Vec::new(),
            written: 0,
            allocated: 0,
            sequence: 0,
            hash: ChainHash::default(),
            head,
            failure: None,
        };
        trail.go_on(end.as_ref(), server)?;
        // A disk that is full keeps no server from starting: its others may need it, and what must be recorded is refused.
        trail.failure = trail.begin().err();
        Ok(trail)
    }

    /// Why the first lines are not on disk yet, if they are not; reported once.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Allocates space, and writes and syncs the first records.
    fn begin(&mut self) -> io::Result<()> {
        self.sync_dir()?;
        self.ensure(AHEAD_BYTES)?;
        self.flush(true)?;
        step();
        // Otherwise the head could be lost by a power failure in its first half minute, which would look as if it had been removed.
        self.head.sync_data()
    }

    fn go_on(&mut self, end: Option<&Recovered>, server: &str) -> io::Result<()> {
        if let Some(end) = end {
            (self.sequence, self.hash) = (end.sequence, end.hash);
            self.synced = end.bytes;
        }
        // Drops the space that the previous process had allocated, and an incomplete last line.
        step();
        self.file.set_len(self.synced)?;
        self.allocated = self.synced;
        if end.is_none() {
            self.begin_file();
        } else if end.is_some_and(|end| end.damaged.is_some())
            && let Err(error) = self.rotate(AHEAD_BYTES)
        {
            tracing::warn!(%error, "the audit log goes on in a damaged file, since no next one can be begun");
        }
        // The gap in the numbers stays for whoever verifies the log.
        self.sequence += end.map_or(0, |end| end.lost);
        let start = StartRecord {
            server,
            version: env!("CARGO_PKG_VERSION"),
            cut_bytes: end.map_or(0, |end| end.torn_bytes),
            lost: end.map_or(0, |end| end.lost),
            damaged: end.and_then(|end| end.damaged.as_deref()),
            head_missing: end.is_some_and(|end| end.head_missing),
        };
        self.push(&fields(&start));
        Ok(())
    }

    /// Adds a line, which is written by the next [`Self::flush`].
    pub fn push(&mut self, fields: &[u8]) {
        self.sequence += 1;
        self.hash = seal(self.hash, self.sequence, fields, &mut self.unsynced);
    }

    /// Writes what was added, and has it on disk if `sync` says so.
    pub fn flush(&mut self, sync: bool) -> io::Result<()> {
        let outcome = self.write(sync);
        if outcome.is_err() {
            // After a failed sync the kernel may have dropped what was written: all of it is written again.
            self.written = 0;
        }
        outcome
    }

    fn write(&mut self, sync: bool) -> io::Result<()> {
        let unwritten = &self.unsynced[self.written..];
        if !unwritten.is_empty() {
            step();
            self.file.write_all_at(unwritten, self.synced + self.written as u64)?;
            self.written = self.unsynced.len();
        }
        if sync && !self.unsynced.is_empty() {
            step();
            self.file.sync_data()?;
            self.check_in_place()?;
            self.synced += self.unsynced.len() as u64;
            self.unsynced.clear();
            self.written = 0;
            step();
            // Written after the lines are synced, so that it never names lines that are not on disk.
            self.head.write_all_at(format!("{:020} {}\n", self.sequence, self.hash).as_bytes(), 0)?;
        }
        Ok(())
    }

    /// Fails when the file was removed or replaced: nobody would find the lines that are written to it from then on.
    fn check_in_place(&self) -> io::Result<()> {
        let (path, own) = (self.dir.join(name(self.number)), self.file.metadata()?);
        let is_there =
            fs::metadata(&path).is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino()));
        let gone = || {
            let text =
                format!("{} was removed or replaced: put it back, or restart the server", path.display());
            Err(io::Error::other(text))
        };
        if is_there { Ok(()) } else { gone() }
    }

    /// Lines that are not known to be on disk, in bytes.
    pub fn unsynced_bytes(&self) -> usize {
        self.unsynced.len()
    }

    /// Of all that was added to the newest file.
    fn len(&self) -> u64 {
        self.synced + self.unsynced.len() as u64
    }

    /// Room for further lines.
    pub fn free_bytes(&self) -> u64 {
        self.allocated.saturating_sub(self.len())
    }

    /// Allocates space for so many bytes.
    pub fn ensure(&mut self, bytes: u64) -> io::Result<()> {
        let end = self.len() + bytes;
        if end > self.allocated {
            step();
            allocate(&self.file, self.allocated, end)?;
            self.allocated = end;
        }
        Ok(())
    }

    /// Whether the newest file has grown to its limit.
    pub fn is_full(&self) -> bool {
        self.len() >= self.file_bytes_max
    }

    /// Goes on in a next file, with space for so many bytes, and removes those that are too many. All that was added must be on
    /// disk; without space for a next file it goes on in this one.
    pub fn rotate(&mut self, bytes: u64) -> io::Result<()> {
        let number = self.number + 1;
        let path = self.dir.join(name(number));
        step();
        let next = open(&path, OpenOptions::new().create(true).truncate(true))?;
        if let Err(error) = allocate(&next, 0, bytes).and_then(|()| self.sync_dir()) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        step();
        let full = std::mem::replace(&mut self.file, next);
        // Gives back what was reserved and not needed. It only costs space if it fails.
        let _ = full.set_len(self.synced);
        (self.number, self.synced, self.allocated) = (number, 0, bytes);
        self.begin_file();
        self.flush(true)?;
        self.remove_old()
    }

    fn begin_file(&mut self) {
        let record = FileRecord { file: self.number, previous: self.hash.to_string() };
        self.push(&fields(&record));
    }

    /// Removes the oldest of those that are too many, unless they are to be kept for longer.
    fn remove_old(&mut self) -> io::Result<()> {
        let numbers = numbers(&self.dir)?;
        let surplus = numbers.len().saturating_sub(self.files_max);
        for number in &numbers[..surplus] {
            let path = self.dir.join(name(*number));
            let age = fs::metadata(&path)?.modified()?.elapsed().unwrap_or_default();
            if age < self.keep {
                break;
            }
            step();
            fs::remove_file(&path)?;
            if age < YOUNG {
                self.removed_young += 1;
                tracing::warn!(
                    file = %path.display(),
                    age = %berth_duration::rounded(age),
                    "a file of the audit log was removed within a day, because there are too many: --audit-keep keeps them for longer"
                );
            }
        }
        Ok(())
    }

    /// Files that were removed within a day of their last line.
    pub fn removed_young(&self) -> u64 {
        self.removed_young
    }

    fn sync_dir(&self) -> io::Result<()> {
        step();
        File::open(&self.dir)?.sync_all()
    }

    /// The newest file, and how much of it no loss of power takes away.
    #[cfg(test)]
    pub fn safe(&self) -> (PathBuf, u64) {
        (self.dir.join(name(self.number)), self.synced)
    }

    /// The number of the last line.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// Called before each change of a file. Tests have the process die here.
#[cfg(not(test))]
pub(super) fn step() {}
#[cfg(test)]
pub(super) use super::tests::deaths::step;

/// Opens a file that only its owner may read.
fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    how.read(true).write(true).mode(0o600).open(path)
}

/// Keeps others from writing to the log for as long as the file is open. One that was killed a moment ago is waited for.
fn hold(head: &File) -> io::Result<()> {
    for _ in 0..HOLD_TRIES {
        match flock(head, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(HOLD_PAUSE),
            outcome => return Ok(outcome?),
        }
    }
    Err(io::Error::other("another server writes to it"))
}

/// Allocates space of a file without making it longer. Where the file system cannot do that it is only checked that there is
/// space: others may take it meanwhile, and then records wait in memory until there is some again.
fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => has_space(file, to - from),
        outcome => Ok(outcome?),
    }
}

fn has_space(file: &File, bytes: u64) -> io::Result<()> {
    let disk = fstatvfs(file)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < bytes { Err(Errno::NOSPC.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_fallocate_the_free_space_is_checked() {
        let file = tempfile::tempfile().expect("a file");
        has_space(&file, 4096).expect("there is room");
        let full = has_space(&file, u64::MAX).expect_err("no disk has so much");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}

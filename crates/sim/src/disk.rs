//! A server's disk: in memory, with the faults that are drawn for it and the bugs that are planted in it.

use std::{
    io::{self, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};

use berth_replication::disk::{Disk, DiskFile, DiskSpace, InUse, LockHold, PreparedFile, memory::MemoryDisk};

use crate::{bugs::Bug, random::Random};

/// How often a write that finds no room is tried again before somebody makes room.
const TRIES_WITHOUT_ROOM: u32 = 5;

/// What one run of a server writes to.
pub struct SimDisk {
    memory: Arc<MemoryDisk>,
    bug: Option<Bug>,
    tries: AtomicU32,
    /// As it was when this run began; only where a bug wants it.
    backup: Option<MemoryDisk>,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(bug: Option<Bug>) -> Self {
        Self::of(Arc::default(), bug)
    }

    fn of(memory: Arc<MemoryDisk>, bug: Option<Bug>) -> Self {
        let backup = (bug == Some(Bug::StartsFromBackup)).then(|| copy(&memory));
        Self { memory, bug, tries: AtomicU32::new(0), backup }
    }

    /// What is on it.
    pub fn memory(&self) -> &MemoryDisk {
        &self.memory
    }

    /// What was to go wrong with this run does not with the next.
    pub fn end_faults(&self) {
        let faults = self.memory.faults();
        faults.power_off_after.store(0, SeqCst);
        faults.no_power.store(false, SeqCst);
        faults.no_sync.store(false, SeqCst);
    }

    /// The same disk, for the next run: all that was written is there.
    pub fn after_kill(&self) -> Self {
        let memory =
            self.backup.as_ref().map_or_else(|| self.memory.clone(), |backup| Arc::new(copy(backup)));
        let disk = Self::of(memory, self.bug);
        disk.lose_tail();
        disk
    }

    /// What a power cut leaves of it, as chance has it.
    pub fn after_power_cut(&self, random: &mut Random) -> Self {
        let percent = *random.pick(&[0, 50, 90]);
        let disk = Self::of(Arc::new(self.memory.after_power_cut(|| random.percent(percent))), self.bug);
        disk.lose_tail();
        disk
    }

    fn lose_tail(&self) {
        if self.bug != Some(Bug::LosesTailOnRestart) {
            return;
        }
        let logs =
            self.memory.paths().into_iter().filter(|path| path.extension().is_some_and(|end| end == "log"));
        if let Some(path) = logs.max() {
            self.memory.tamper(&path, |bytes| {
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                let from = end.saturating_sub(512).max(512).min(bytes.len());
                bytes[from..].fill(0);
            });
        }
    }
}

fn copy(memory: &MemoryDisk) -> MemoryDisk {
    memory.moved(Path::new("/"), Path::new("/"))
}

impl Disk for SimDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.memory.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.memory.list(dir)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.memory.len(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.memory.read(path)
    }

    fn read_at(&self, path: &Path, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.memory.read_at(path, offset, bytes)
    }

    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.memory.stream(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.file(self.memory.create(path)?)
    }

    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.memory.allocate(path, bytes)
    }

    fn set_len(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.memory.set_len(path, bytes)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.file(self.memory.open(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.memory.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.bug == Some(Bug::SkipsNames) { Ok(()) } else { self.memory.sync_dir(dir) }
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        self.memory.space(dir)
    }

    fn hold(&self, dir: &Path) -> io::Result<Result<LockHold, InUse>> {
        self.memory.hold(dir)
    }

    fn begin(&self, work: PreparedFile) -> Option<PreparedFile> {
        self.memory.begin(work)
    }

    /// The whole simulation stands still meanwhile, so that somebody must make room in the end.
    fn wait_for_room(&self) {
        if self.tries.fetch_add(1, SeqCst) + 1 >= TRIES_WITHOUT_ROOM {
            self.tries.store(0, SeqCst);
            self.memory.faults().capacity.store(0, SeqCst);
        }
    }
}

impl SimDisk {
    fn file(&self, file: Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>> {
        let skips_sync = self.bug == Some(Bug::SkipsSync);
        Ok(if skips_sync { Box::new(Unsynced(file)) } else { file })
    }
}

/// A file that is never synced.
struct Unsynced(Box<dyn DiskFile>);

impl DiskFile for Unsynced {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

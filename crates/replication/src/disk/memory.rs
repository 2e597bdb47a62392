//! A disk in memory that can lose its power: what was not synced is gone, or there by sectors, as chance has it.

use std::{
    collections::BTreeMap,
    io::{self, Cursor, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{Disk, DiskFile, DiskSpace, InUse, LockHold, PreparedFile};

const SECTOR_BYTES: usize = 512;
/// How often a write that finds no space is tried again.
const ROOM_RETRY: Duration = Duration::from_millis(5);

type Names = BTreeMap<PathBuf, Arc<Mutex<FileContent>>>;

#[derive(Clone, Default)]
struct FileContent {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Bytes of it that take up space; a hole follows.
    written: usize,
}

/// Files that live as long as the value.
#[derive(Default)]
pub struct MemoryDisk {
    names: Arc<Mutex<Names>>,
    synced_names: Mutex<Names>,
    /// What was done to names and not synced since, in order.
    unsynced: Mutex<Vec<NameChange>>,
    faults: Arc<Faults>,
    held: Arc<AtomicBool>,
}

#[derive(Clone)]
enum NameChange {
    Put(PathBuf, Arc<Mutex<FileContent>>),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    fn dir(&self) -> Option<&Path> {
        let (Self::Put(path, _) | Self::Rename(_, path) | Self::Remove(path)) = self;
        path.parent()
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Self::Put(path, content) => drop(names.insert(path.clone(), Arc::clone(content))),
            Self::Remove(path) => drop(names.remove(path)),
            Self::Rename(from, to) => {
                if let Some(content) = names.remove(from) {
                    names.insert(to.clone(), content);
                }
            }
        }
    }
}

/// What goes wrong, and what has been done.
#[derive(Default)]
pub struct Faults {
    /// Syncs fail from now on.
    pub no_sync: AtomicBool,
    /// The power is off: nothing is written any more.
    pub no_power: AtomicBool,
    /// Writes and syncs after which the power goes off; 0 for never.
    pub power_off_after: AtomicUsize,
    /// Writes and syncs so far.
    pub steps: AtomicUsize,
    /// What is read of a file that has not got its name yet is not what was written.
    pub garbled: AtomicBool,
    /// Bytes that all files together may have; 0 for no end.
    pub capacity: AtomicUsize,
}

impl Faults {
    fn step(&self) -> io::Result<()> {
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        if step == self.power_off_after.load(Ordering::SeqCst) {
            self.no_power.store(true, Ordering::SeqCst);
        }
        if self.no_power.load(Ordering::SeqCst) { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }
}

impl MemoryDisk {
    /// To make things go wrong.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What is found after a power cut. Each sector that was written and not synced is there or not, as `chance` has
    /// it; so are changes of names, but none without those before it.
    pub fn after_power_cut(&self, mut chance: impl FnMut() -> bool) -> Self {
        let mut found_names = self.synced_names.lock().unwrap().clone();
        for change in self.unsynced.lock().unwrap().iter().take_while(|_| chance()) {
            change.apply(&mut found_names);
        }
        let mut names = Names::new();
        for (path, content) in &found_names {
            let content = content.lock().unwrap().clone();
            let mut found = content.synced;
            for (at, sector) in content.now.chunks(SECTOR_BYTES).enumerate() {
                let at = at * SECTOR_BYTES;
                if found.get(at..at + sector.len()) != Some(sector) && chance() {
                    found.resize(found.len().max(at + sector.len()), 0);
                    found[at..at + sector.len()].copy_from_slice(sector);
                }
            }
            let written = content.written.min(found.len());
            let content = FileContent { now: found.clone(), synced: found, written };
            names.insert(path.clone(), Arc::new(Mutex::new(content)));
        }
        Self::of(names)
    }

    fn of(names: Names) -> Self {
        Self {
            names: Arc::new(Mutex::new(names.clone())),
            synced_names: Mutex::new(names),
            ..Self::default()
        }
    }

    /// A copy that shares nothing, with all paths moved from one directory to another.
    pub fn moved(&self, from: &Path, to: &Path) -> Self {
        let moved = |(path, content): (&PathBuf, &Arc<Mutex<FileContent>>)| {
            let path = to.join(path.strip_prefix(from).unwrap());
            (path, Arc::new(Mutex::new(content.lock().unwrap().clone())))
        };
        Self::of(self.names().iter().map(moved).collect())
    }

    /// Changes a file behind everybody's back.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let content = self.content(path).unwrap();
        let mut content = content.lock().unwrap();
        change(&mut content.now);
        content.synced = content.now.clone();
        content.written = content.written.min(content.now.len());
    }

    /// All files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.names().keys().cloned().collect()
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap()
    }

    fn content(&self, path: &Path) -> io::Result<Arc<Mutex<FileContent>>> {
        self.names().get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Bytes of all files together.
    pub fn used(&self) -> usize {
        bytes_used(&self.names)
    }

    fn change(&self, change: NameChange) {
        change.apply(&mut self.names());
        self.unsynced.lock().unwrap().push(change);
    }

    fn file(&self, content: Arc<Mutex<FileContent>>) -> Box<dyn DiskFile> {
        let (names, faults) = (Arc::clone(&self.names), Arc::clone(&self.faults));
        Box::new(MemoryFile { content, names, faults })
    }
}

impl Disk for MemoryDisk {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let in_dir = |path: &&PathBuf| path.parent() == Some(dir);
        let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(self.names().keys().filter(in_dir).filter_map(name).collect())
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(self.content(path)?.lock().unwrap().now.len() as u64)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.content(path)?.lock().unwrap().now.clone())
    }

    fn read_at(&self, path: &Path, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let whole = self.read(path)?;
        let part = whole.get(offset as usize..offset as usize + bytes);
        part.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let mut bytes = self.read(path)?;
        if self.faults.garbled.load(Ordering::SeqCst) && path.extension().is_some_and(|end| end == "next") {
            bytes[500] ^= 1;
        }
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.faults.step()?;
        let content = Arc::<Mutex<FileContent>>::default();
        self.change(NameChange::Put(path.to_owned(), Arc::clone(&content)));
        Ok(self.file(content))
    }

    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.create(path)?.write_at(&vec![0; bytes as usize], 0)
    }

    fn set_len(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.faults.step()?;
        let (content, bytes) = (self.content(path)?, bytes as usize);
        let mut content = content.lock().unwrap();
        content.now.resize(bytes, 0);
        content.written = content.written.min(bytes);
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.content(path).map(|content| self.file(content))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.step()?;
        self.content(from)?;
        self.change(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults.step()?;
        self.content(path)?;
        self.change(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.faults.step()?;
        let mut synced = self.synced_names.lock().unwrap();
        self.unsynced.lock().unwrap().retain(|change| {
            let here = change.dir() == Some(dir);
            if here {
                change.apply(&mut synced);
            }
            !here
        });
        Ok(())
    }

    fn space(&self, _: &Path) -> io::Result<DiskSpace> {
        let total = self.faults.capacity.load(Ordering::SeqCst) as u64;
        Ok(DiskSpace { free: bytes_free(&self.names, &self.faults) as u64, total })
    }

    fn hold(&self, _: &Path) -> io::Result<Result<LockHold, InUse>> {
        if self.held.swap(true, Ordering::SeqCst) {
            return Ok(Err(InUse { by: Some(std::process::id()) }));
        }
        Ok(Ok(Box::new(DiskInUse(Arc::clone(&self.held)))))
    }

    fn begin(&self, work: PreparedFile) -> Option<PreparedFile> {
        let done = work();
        Some(Box::new(|| done))
    }

    fn wait_for_room(&self) {
        std::thread::sleep(ROOM_RETRY);
    }
}

/// That somebody uses the disk, until it is dropped.
struct DiskInUse(Arc<AtomicBool>);

impl Drop for DiskInUse {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

struct MemoryFile {
    content: Arc<Mutex<FileContent>>,
    names: Arc<Mutex<Names>>,
    faults: Arc<Faults>,
}

impl MemoryFile {
    /// Whether the file may end at `end`.
    fn check_room(&self, end: usize) -> io::Result<()> {
        let more = end.saturating_sub(self.content.lock().unwrap().written);
        if more == 0 || bytes_free(&self.names, &self.faults) >= more {
            return Ok(());
        }
        Err(io::ErrorKind::StorageFull.into())
    }
}

fn bytes_free(names: &Mutex<Names>, faults: &Faults) -> usize {
    let capacity = match faults.capacity.load(Ordering::SeqCst) {
        0 => return usize::MAX,
        capacity => capacity,
    };
    capacity.saturating_sub(bytes_used(names))
}

fn bytes_used(names: &Mutex<Names>) -> usize {
    names.lock().unwrap().values().map(|content| content.lock().unwrap().written).sum()
}

impl DiskFile for MemoryFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.faults.step()?;
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        self.check_room(end)?;
        let mut content = self.content.lock().unwrap();
        let length = content.now.len().max(end);
        content.now.resize(length, 0);
        content.now[start..end].copy_from_slice(bytes);
        content.written = content.written.max(end);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.faults.step()?;
        if self.faults.no_sync.load(Ordering::SeqCst) {
            return Err(io::Error::other("input/output error"));
        }
        let mut content = self.content.lock().unwrap();
        content.synced = content.now.clone();
        Ok(())
    }
}

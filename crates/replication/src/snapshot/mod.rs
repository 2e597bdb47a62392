//! The snapshots of a server: the last two are kept, and the log back to the older one, so that there is a way home
//! when the newer one is damaged.

mod file;
mod load;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use berth_model::store::Store;

use crate::{
    DiskFull, OpenError,
    disk::{DirLock, Disk, checked},
    metrics::Counters,
    space::Space,
};

pub(crate) use file::{PREAMBLE_BYTES, SnapshotCoverage, read, verify};
pub(crate) use load::{LoadedState, load};

/// Snapshots that are kept.
pub(crate) const SNAPSHOTS_MAX: usize = 2;

/// A snapshot on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotImage {
    /// The path.
    pub path: PathBuf,
    /// The records and the membership that it covers.
    pub meta: SnapshotCoverage,
}

/// A snapshot that is known by its name only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotFile {
    /// Of the last record in it.
    pub index: u64,
    /// The path.
    pub path: PathBuf,
}

/// The directory of snapshots.
pub(crate) struct Snapshots {
    pub disk: Arc<dyn Disk>,
    dir: PathBuf,
    list: Mutex<SnapshotList>,
    /// The log's: records from here on are needed by the older snapshot.
    keep_from: Arc<AtomicU64>,
    counters: Arc<Counters>,
    space: Arc<Space>,
    _lock: Arc<DirLock>,
}

struct SnapshotList {
    newest: Option<SnapshotImage>,
    /// All of them, oldest first.
    files: Vec<SnapshotFile>,
}

impl Snapshots {
    /// Goes on with what was loaded.
    pub fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        loaded: &LoadedState,
        keep_from: Arc<AtomicU64>,
        counters: Arc<Counters>,
        space: Arc<Space>,
        lock: Arc<DirLock>,
    ) -> Self {
        let list = SnapshotList { newest: loaded.image.clone(), files: loaded.files.clone() };
        list.publish_keep_from(&keep_from);
        let snapshots = Self { disk, dir, list: Mutex::new(list), keep_from, counters, space, _lock: lock };
        snapshots.space.on_snapshot(snapshots.newest_bytes());
        snapshots
    }

    fn list(&self) -> MutexGuard<'_, SnapshotList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest.
    pub fn newest(&self) -> Option<SnapshotImage> {
        self.list().newest.clone()
    }

    /// Of the newest; 0 without one.
    pub fn newest_bytes(&self) -> u64 {
        self.newest().and_then(|image| self.disk.len(&image.path).ok()).unwrap_or(0)
    }

    /// Whether another one, about as large as the newest, can be written.
    pub fn has_room(&self) -> Result<(), DiskFull> {
        self.space.fits(self.newest_bytes())
    }

    /// Whether one of so many bytes, which comes from elsewhere, can be written.
    pub fn fits(&self, bytes: u64) -> Result<(), DiskFull> {
        self.space.fits(bytes)
    }

    /// The directory of the snapshots.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a snapshot, reads it back, and removes those that are no longer needed. Blocks for as long as the disk
    /// takes.
    ///
    /// # Errors
    /// `InvalidData` when what was written cannot be read back as the state that it should be.
    pub fn write(&self, meta: SnapshotCoverage, store: &Store) -> io::Result<SnapshotImage> {
        let next = checked::with_suffix(&path(&self.dir, &meta), ".next");
        let written = file::write(&*self.disk, &next, &meta, store);
        if let Err(error) = written.and_then(|()| self.read_back(&next, &meta, store)) {
            // Space that half a snapshot takes up is missing elsewhere.
            self.disk.remove(&next).ok();
            return Err(error);
        }
        self.counters.on_snapshot();
        self.adopt(SnapshotImage { path: next, meta })
    }

    /// Checks that a start from this snapshot would give the same state. The log that it covers is removed for it. The state is not
    /// made a second time for that: with millions of allocations the server would need twice the memory.
    fn read_back(&self, path: &Path, meta: &SnapshotCoverage, store: &Store) -> io::Result<()> {
        let bad = |what: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("read back {}: {what}", path.display()))
        };
        match file::read_hash(&*self.disk, path) {
            Ok((found, hash)) if found == *meta && hash == store.hash() => Ok(()),
            Ok(_) => Err(bad("it is not the state that was written".to_owned())),
            Err(OpenError::Damaged(damage)) => Err(bad(damage.what)),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Takes in a complete snapshot, wherever it lies, and removes those that are no longer needed. One that is older than the
    /// newest does not take its place: it was being written while a leader's arrived.
    pub fn adopt(&self, image: SnapshotImage) -> io::Result<SnapshotImage> {
        let image = self.put_in_place(image)?;
        let mut list = self.list();
        list.files.retain(|files| files.path != image.path);
        list.files.push(SnapshotFile { index: image.meta.last.index(), path: image.path.clone() });
        list.files.sort_by_key(|files| files.index);
        let is_newest = list.newest.as_ref().is_none_or(|newest| newest.meta.last <= image.meta.last);
        list.newest = Some(image.clone()).filter(|_| is_newest).or_else(|| list.newest.take());
        let surplus = list.files.len().saturating_sub(SNAPSHOTS_MAX);
        for old in list.files.drain(..surplus) {
            self.disk.remove(&old.path)?;
        }
        list.publish_keep_from(&self.keep_from);
        drop(list);
        self.space.on_snapshot(self.newest_bytes());
        Ok(image)
    }

    fn put_in_place(&self, image: SnapshotImage) -> io::Result<SnapshotImage> {
        let path = path(&self.dir, &image.meta);
        if image.path != path {
            self.disk.rename(&image.path, &path)?;
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(SnapshotImage { path, ..image })
    }
}

impl SnapshotList {
    /// Tells the log from where on it must keep its records.
    fn publish_keep_from(&self, keep_from: &AtomicU64) {
        let full = self.files.len() >= SNAPSHOTS_MAX;
        let older = self.files.first().filter(|_| full);
        keep_from.store(older.map_or(0, |older| older.index + 1), Ordering::Release);
    }
}

fn path(dir: &Path, meta: &SnapshotCoverage) -> PathBuf {
    dir.join(format!("{:020}-{}.snap", meta.last.index(), crate::types::term_of(&meta.last)))
}

/// The last record's index in a snapshot's file name; none for another file.
fn covered(name: &str) -> Option<u64> {
    let (index, _term) = name.strip_suffix(".snap")?.split_once('-')?;
    index.parse().ok()
}

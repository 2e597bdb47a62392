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

pub(crate) use file::{Meta, PREAMBLE_BYTES, read, verify};
pub(crate) use load::{Loaded, load};

/// Snapshots that are kept.
pub(crate) const SNAPSHOTS_MAX: usize = 2;

/// A snapshot on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// The path.
    pub path: PathBuf,
    /// What it covers.
    pub meta: Meta,
}

/// A snapshot that is known by its name only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Of the last record in it.
    pub index: u64,
    /// The path.
    pub path: PathBuf,
}

/// The directory of snapshots.
pub(crate) struct Snapshots {
    pub disk: Arc<dyn Disk>,
    dir: PathBuf,
    shelf: Mutex<Shelf>,
    /// The log's: records from here on are needed by the older snapshot.
    keep_from: Arc<AtomicU64>,
    counters: Arc<Counters>,
    space: Arc<Space>,
    _lock: Arc<DirLock>,
}

struct Shelf {
    newest: Option<Image>,
    /// All of them, oldest first.
    kept: Vec<Kept>,
}

impl Snapshots {
    /// Goes on with what was loaded.
    pub fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        loaded: &Loaded,
        keep_from: Arc<AtomicU64>,
        counters: Arc<Counters>,
        space: Arc<Space>,
        lock: Arc<DirLock>,
    ) -> Self {
        let shelf = Shelf { newest: loaded.image.clone(), kept: loaded.kept.clone() };
        shelf.tell(&keep_from);
        let snapshots = Self { disk, dir, shelf: Mutex::new(shelf), keep_from, counters, space, _lock: lock };
        snapshots.space.on_snapshot(snapshots.newest_bytes());
        snapshots
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest.
    pub fn newest(&self) -> Option<Image> {
        self.shelf().newest.clone()
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

    /// Where they lie.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a snapshot, reads it back, and removes those that are no longer needed. Blocks for as long as the disk
    /// takes.
    ///
    /// # Errors
    /// `InvalidData` when what was written cannot be read back as the state that it should be.
    pub fn write(&self, meta: Meta, store: &Store) -> io::Result<Image> {
        let next = checked::with_suffix(&path(&self.dir, &meta), ".next");
        let written = file::write(&*self.disk, &next, &meta, store);
        if let Err(error) = written.and_then(|()| self.read_back(&next, &meta, store)) {
            // Room that half a snapshot takes up is missing elsewhere.
            self.disk.remove(&next).ok();
            return Err(error);
        }
        self.counters.on_snapshot();
        self.adopt(Image { path: next, meta })
    }

    /// Checks that a start from this snapshot would give the same state. The log that it covers is removed for it. The state is not
    /// made a second time for that: with millions of allocations the server would need twice the memory.
    fn read_back(&self, path: &Path, meta: &Meta, store: &Store) -> io::Result<()> {
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
    pub fn adopt(&self, image: Image) -> io::Result<Image> {
        let image = self.put_in_place(image)?;
        let mut shelf = self.shelf();
        shelf.kept.retain(|kept| kept.path != image.path);
        shelf.kept.push(Kept { index: image.meta.last.index(), path: image.path.clone() });
        shelf.kept.sort_by_key(|kept| kept.index);
        let is_newest = shelf.newest.as_ref().is_none_or(|newest| newest.meta.last <= image.meta.last);
        shelf.newest = Some(image.clone()).filter(|_| is_newest).or_else(|| shelf.newest.take());
        let gone = shelf.kept.len().saturating_sub(SNAPSHOTS_MAX);
        for old in shelf.kept.drain(..gone) {
            self.disk.remove(&old.path)?;
        }
        shelf.tell(&self.keep_from);
        drop(shelf);
        self.space.on_snapshot(self.newest_bytes());
        Ok(image)
    }

    fn put_in_place(&self, image: Image) -> io::Result<Image> {
        let path = path(&self.dir, &image.meta);
        if image.path != path {
            self.disk.rename(&image.path, &path)?;
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(Image { path, ..image })
    }
}

impl Shelf {
    /// Tells the log from where on it must keep its records.
    fn tell(&self, keep_from: &AtomicU64) {
        let full = self.kept.len() >= SNAPSHOTS_MAX;
        let older = self.kept.first().filter(|_| full);
        keep_from.store(older.map_or(0, |older| older.index + 1), Ordering::Release);
    }
}

fn path(dir: &Path, meta: &Meta) -> PathBuf {
    dir.join(format!("{:020}-{}.snap", meta.last.index(), crate::types::term_of(&meta.last)))
}

/// The last record's index in a snapshot's file name; none for another file.
fn covered(name: &str) -> Option<u64> {
    let (index, _term) = name.strip_suffix(".snap")?.split_once('-')?;
    index.parse().ok()
}

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
    disk::{DirLock, Disk, checked},
    metrics::Counters,
};

pub(crate) use file::{Meta, read};
pub(crate) use load::{Loaded, load};

/// Snapshots that are kept.
pub(crate) const SNAPSHOTS_MAX: usize = 2;

/// A snapshot on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// Where.
    pub path: PathBuf,
    /// What it covers.
    pub meta: Meta,
}

/// The directory of snapshots.
pub(crate) struct Snapshots {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    /// Oldest first.
    images: Mutex<Vec<Image>>,
    /// The log's: records from here on are needed by the older snapshot.
    keep_from: Arc<AtomicU64>,
    counters: Arc<Counters>,
    _lock: Arc<DirLock>,
}

impl Snapshots {
    /// Goes on with what was loaded.
    pub fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        images: Vec<Image>,
        keep_from: Arc<AtomicU64>,
        counters: Arc<Counters>,
        lock: Arc<DirLock>,
    ) -> Self {
        let snapshots = Self { disk, dir, images: Mutex::new(images), keep_from, counters, _lock: lock };
        snapshots.tell_log();
        snapshots
    }

    fn images(&self) -> MutexGuard<'_, Vec<Image>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest.
    pub fn newest(&self) -> Option<Image> {
        self.images().last().cloned()
    }

    /// Writes a snapshot, and removes those that are no longer needed. Blocks for as long as the disk takes.
    pub fn write(&self, meta: Meta, store: &Store) -> io::Result<Image> {
        let path = path(&self.dir, &meta);
        let next = checked::with_suffix(&path, ".next");
        file::write(&*self.disk, &next, &meta, store)?;
        self.disk.rename(&next, &path)?;
        self.disk.sync_dir(&self.dir)?;
        self.counters.on_snapshot();
        let image = Image { path, meta };
        self.keep(image.clone())?;
        Ok(image)
    }

    /// Takes in a complete snapshot that came from elsewhere.
    pub fn adopt(&self, mut image: Image) -> io::Result<()> {
        let path = path(&self.dir, &image.meta);
        if image.path != path {
            self.disk.rename(&image.path, &path)?;
            self.disk.sync_dir(&self.dir)?;
            image.path = path;
        }
        self.keep(image)
    }

    fn keep(&self, image: Image) -> io::Result<()> {
        let mut images = self.images();
        images.retain(|kept| kept.path != image.path);
        images.push(image);
        images.sort_by_key(|image| image.meta.last.index());
        let gone = images.len().saturating_sub(SNAPSHOTS_MAX);
        for old in images.drain(..gone) {
            self.disk.remove(&old.path)?;
        }
        drop(images);
        self.tell_log();
        Ok(())
    }

    fn tell_log(&self) {
        let images = self.images();
        let older = if images.len() < SNAPSHOTS_MAX { None } else { images.first() };
        let keep_from = older.map_or(0, |image| image.meta.last.index() + 1);
        self.keep_from.store(keep_from, Ordering::Release);
    }
}

fn path(dir: &Path, meta: &Meta) -> PathBuf {
    dir.join(format!("{:020}-{}.snap", meta.last.index(), crate::types::term_of(&meta.last)))
}

/// The last record's index and term in a snapshot's file name; none for another file.
fn covered(name: &str) -> Option<(u64, u64)> {
    let (index, term) = name.strip_suffix(".snap")?.split_once('-')?;
    Some((index.parse().ok()?, term.parse().ok()?))
}

//! Takes in a snapshot that a leader sends: piece by piece into a file, which is checked whole before anything is done
//! with it. One at a time. What has arrived stays over a restart, beside what was announced, so that the same snapshot
//! goes on where it ended; that its end was lost with the power shows when the whole is checked.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::wire::{self, SnapshotBegin, SnapshotPiece};
use crate::{
    disk::{DiskFile, checked},
    snapshot::{self, Image, Snapshots},
};

/// What has arrived.
const PART: &str = "received.part";
/// What was announced.
const ANNOUNCED: &str = "received";
/// A snapshot larger than this is no snapshot.
const BYTES_MAX: u64 = 1 << 40;

/// Receives snapshots into the directory of this server's own.
pub(super) struct Receiver {
    snapshots: Arc<Snapshots>,
    current: Mutex<Option<Receiving>>,
}

struct Receiving {
    begin: SnapshotBegin,
    file: Box<dyn DiskFile>,
    written: u64,
}

impl Receiver {
    /// Goes on with what arrived before a restart, if the state is not newer by now.
    pub fn new(snapshots: Arc<Snapshots>) -> Self {
        let receiver = Self { snapshots, current: Mutex::default() };
        let have = receiver.snapshots.newest().map(|image| image.meta.last.index());
        let resumed = receiver.resume().filter(|receiving| Some(receiving.begin.last.index()) > have);
        match resumed {
            Some(resumed) => *receiver.current() = Some(resumed),
            None => receiver.forget(),
        }
        receiver
    }

    fn current(&self) -> MutexGuard<'_, Option<Receiving>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.snapshots.dir().join(name)
    }

    fn resume(&self) -> Option<Receiving> {
        let disk = &*self.snapshots.disk;
        let announced = checked::load(disk, &self.path(ANNOUNCED)).ok().flatten()?;
        let begin: SnapshotBegin = wire::get(&announced).ok()?;
        let part = self.path(PART);
        let written = disk.len(&part).ok().filter(|bytes| *bytes <= begin.bytes)?;
        Some(Receiving { begin, file: disk.open(&part).ok()?, written })
    }

    /// Removes what has arrived, if anything has.
    fn forget(&self) {
        for name in [ANNOUNCED, PART] {
            self.snapshots.disk.remove(&self.path(name)).ok();
        }
    }

    /// A snapshot is about to come. Returns how many bytes of it are here already.
    pub fn begin(&self, begin: SnapshotBegin) -> Result<u64, String> {
        let mut current = self.current();
        if let Some(receiving) = current.as_ref().filter(|receiving| receiving.begin == begin) {
            return Ok(receiving.written);
        }
        begin.meta()?;
        if begin.bytes > BYTES_MAX {
            return Err(format!("a snapshot of {} bytes is too large", begin.bytes));
        }
        *current = None;
        self.forget();
        self.snapshots.fits(begin.bytes).map_err(|full| full.to_string())?;
        let (disk, mut announced) = (&*self.snapshots.disk, Vec::new());
        wire::put(&begin, &mut announced);
        let file = disk.create(&self.path(PART)).map_err(|error| self.failed(&error))?;
        checked::replace(disk, &self.path(ANNOUNCED), &announced).map_err(|error| self.failed(&error))?;
        *current = Some(Receiving { begin, file, written: 0 });
        Ok(0)
    }

    /// A part has come. Returns how many bytes are here.
    pub fn piece(&self, piece: &SnapshotPiece) -> Result<u64, String> {
        let mut current = self.current();
        let receiving = current.as_mut().ok_or("no snapshot was announced")?;
        let end = piece.offset.saturating_add(piece.bytes.len() as u64);
        if piece.offset != receiving.written || end > receiving.begin.bytes {
            return Err(format!(
                "bytes {} to {end} of a snapshot of {} do not follow the {} that are here",
                piece.offset, receiving.begin.bytes, receiving.written
            ));
        }
        let written = receiving.file.write_at(&piece.bytes, piece.offset);
        written.map_err(|error| self.failed(&error))?;
        receiving.written = end;
        Ok(end)
    }

    /// All parts have come: the snapshot, if it is what was sent.
    pub fn end(&self) -> Result<Image, String> {
        let mut current = self.current();
        let mut receiving = current.take().ok_or("no snapshot was announced")?;
        if receiving.written != receiving.begin.bytes {
            let why = format!("{} of {} bytes have arrived", receiving.written, receiving.begin.bytes);
            *current = Some(receiving);
            return Err(why);
        }
        receiving.file.sync().map_err(|error| self.failed(&error))?;
        let meta = receiving.begin.meta()?;
        let path = self.path(PART);
        match snapshot::verify(&*self.snapshots.disk, &path) {
            Ok(found) if found == meta => {
                self.snapshots.disk.remove(&self.path(ANNOUNCED)).ok();
                Ok(Image { path, meta })
            }
            found => {
                // What is bad is sent anew, and never becomes this server's state.
                self.forget();
                let why =
                    found.err().map_or("it is not the one that was announced".to_owned(), |e| e.to_string());
                Err(format!("a snapshot was damaged on its way: {why}"))
            }
        }
    }

    fn failed(&self, error: &io::Error) -> String {
        format!("write {}: {error}", self.path(PART).display())
    }
}

//! Takes in a snapshot that a leader sends: piece by piece into a file, which is checked whole before anything is done
//! with it. One at a time.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use super::wire::{SnapshotBegin, SnapshotPiece};
use crate::{
    disk::DiskFile,
    snapshot::{self, Image, Snapshots},
};

/// What is received has this name, which a start removes.
const NAME: &str = "received.next";
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
    pub fn new(snapshots: Arc<Snapshots>) -> Self {
        Self { snapshots, current: Mutex::default() }
    }

    fn path(&self) -> PathBuf {
        self.snapshots.dir().join(NAME)
    }

    /// A snapshot is about to come. Returns how many bytes of it are here already.
    pub fn begin(&self, begin: SnapshotBegin) -> Result<u64, String> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(receiving) = current.as_ref().filter(|receiving| receiving.begin == begin) {
            return Ok(receiving.written);
        }
        begin.meta()?;
        if begin.bytes > BYTES_MAX {
            return Err(format!("a snapshot of {} bytes is too large", begin.bytes));
        }
        self.snapshots.fits(begin.bytes).map_err(|full| full.to_string())?;
        let file = self.snapshots.disk.create(&self.path()).map_err(|error| self.failed(&error))?;
        *current = Some(Receiving { begin, file, written: 0 });
        Ok(0)
    }

    /// A part has come. Returns how many bytes are here.
    pub fn piece(&self, piece: &SnapshotPiece) -> Result<u64, String> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut receiving = current.take().ok_or("no snapshot was announced")?;
        if receiving.written != receiving.begin.bytes {
            let why = format!("{} of {} bytes have arrived", receiving.written, receiving.begin.bytes);
            *current = Some(receiving);
            return Err(why);
        }
        receiving.file.sync().map_err(|error| self.failed(&error))?;
        let meta = receiving.begin.meta()?;
        let path = self.path();
        match snapshot::verify(&*self.snapshots.disk, &path) {
            Ok(found) if found == meta => Ok(Image { path, meta }),
            found => {
                // What is bad is sent anew, and never becomes this server's state.
                self.snapshots.disk.remove(&path).ok();
                let why =
                    found.err().map_or("it is not the one that was announced".to_owned(), |e| e.to_string());
                Err(format!("a snapshot was damaged on its way: {why}"))
            }
        }
    }

    fn failed(&self, error: &io::Error) -> String {
        format!("write {}: {error}", self.path().display())
    }
}

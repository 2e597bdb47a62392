//! Takes in a snapshot that a leader sends: piece by piece into a file, which is checked whole before anything is done
//! with it. One at a time. What has arrived stays over a restart, beside what was announced, so that the same snapshot
//! goes on where it ended; that its end was lost with the power shows when the whole is checked.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::wire::{self, SnapshotBegin, SnapshotChunk};
use crate::{
    disk::{DiskFile, checked},
    snapshot::{self, SnapshotImage, Snapshots},
};

/// File with the part of a snapshot that has arrived.
const PART: &str = "received.part";
/// File with the announcement of that snapshot.
const ANNOUNCED: &str = "received";
/// Begins the refusal of a snapshot whose bytes are not those that were announced.
pub(super) const DAMAGED: &str = "a snapshot was damaged on its way";
/// A snapshot larger than this is no snapshot.
const BYTES_MAX: u64 = 1 << 40;

/// Receives snapshots into the directory of this server's own.
pub(super) struct SnapshotReceiver {
    snapshots: Arc<Snapshots>,
    current: Mutex<Option<ArrivingSnapshot>>,
    /// Snapshots that arrived whole since the start.
    whole: AtomicU64,
}

struct ArrivingSnapshot {
    begin: SnapshotBegin,
    file: Box<dyn DiskFile>,
    written: u64,
}

impl SnapshotReceiver {
    /// Goes on with what arrived before a restart, if the state is not newer by now.
    pub fn new(snapshots: Arc<Snapshots>) -> Self {
        let receiver = Self { snapshots, current: Mutex::default(), whole: AtomicU64::new(0) };
        let have = receiver.snapshots.newest().map(|image| image.meta.last.index());
        let resumed = receiver.resume().filter(|receiving| Some(receiving.begin.last.index()) > have);
        match resumed {
            Some(resumed) => *receiver.current() = Some(resumed),
            None => receiver.forget(),
        }
        receiver
    }

    fn current(&self) -> MutexGuard<'_, Option<ArrivingSnapshot>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.snapshots.dir().join(name)
    }

    fn resume(&self) -> Option<ArrivingSnapshot> {
        let disk = &*self.snapshots.disk;
        let announced = checked::load(disk, &self.path(ANNOUNCED)).ok().flatten()?;
        let begin: SnapshotBegin = wire::get(&announced).ok()?;
        let part = self.path(PART);
        let written = disk.len(&part).ok().filter(|bytes| *bytes <= begin.bytes)?;
        Some(ArrivingSnapshot { begin, file: disk.open(&part).ok()?, written })
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
        *current = Some(ArrivingSnapshot { begin, file, written: 0 });
        Ok(0)
    }

    /// A part has come. Returns how many bytes are here.
    pub fn piece(&self, piece: &SnapshotChunk) -> Result<u64, String> {
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

    /// All parts have come: the snapshot, if it is what was sent. It gets a name of its own, since another may begin to arrive
    /// while this one is loaded; [`Self::discard`] removes it if nobody has taken it in.
    pub fn end(&self) -> Result<SnapshotImage, String> {
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
            Ok(found) if found.covers_the_same(&meta) => {
                let number = self.whole.fetch_add(1, Ordering::Relaxed);
                // What a crash leaves of it is removed at the next start, as its name says.
                let own = self.path(&format!("{ANNOUNCED}-{number}.next"));
                self.snapshots.disk.rename(&path, &own).map_err(|error| self.failed(&error))?;
                self.snapshots.disk.remove(&self.path(ANNOUNCED)).ok();
                Ok(SnapshotImage { path: own, meta: found })
            }
            found => {
                // What is bad is sent again, and never becomes this server's state.
                self.forget();
                let why =
                    found.err().map_or("it is not the one that was announced".to_owned(), |e| e.to_string());
                Err(format!("{DAMAGED}: {why}"))
            }
        }
    }

    /// Removes a snapshot that arrived whole, unless it was taken in.
    pub fn discard(&self, arrived: &Path) {
        self.snapshots.disk.remove(arrived).ok();
    }

    fn failed(&self, error: &io::Error) -> String {
        format!("write {}: {error}", self.path(PART).display())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_model::store::Store;

    use super::*;
    use crate::{
        Peer,
        disk::{DirLock, Disk, memory::MemoryDisk},
        metrics::Counters,
        snapshot::{LoadedState, PREAMBLE_BYTES, SnapshotCoverage},
        space::Space,
        types::{Membership, StoredMembership, log_id},
    };

    const SEGMENT_BYTES: u64 = 16 << 10;

    fn snapshots(disk: &Arc<MemoryDisk>, dir: &str) -> Arc<Snapshots> {
        let (disk, dir): (Arc<dyn Disk>, PathBuf) = (Arc::clone(disk) as Arc<dyn Disk>, dir.into());
        disk.create_dir(&dir).unwrap();
        let beside = Path::new("/room");
        disk.create_dir(beside).unwrap();
        let space = Arc::new(Space::new(Arc::clone(&disk), beside, SEGMENT_BYTES));
        let (lock, _) = DirLock::new(Box::new(()));
        let keep_from = Arc::new(AtomicU64::new(0));
        let counters = Arc::new(Counters::default());
        Arc::new(Snapshots::new(
            disk,
            dir,
            &LoadedState::default(),
            keep_from,
            counters,
            space,
            Arc::new(lock),
        ))
    }

    fn meta(index: u64) -> SnapshotCoverage {
        let members = Membership::new(vec![[1].into()], BTreeMap::from([(1, Peer::default())])).unwrap();
        let membership = StoredMembership::new(Some(log_id(1, 1)), members);
        SnapshotCoverage { last: log_id(1, index), membership, departed: Vec::new() }
    }

    /// What a leader says of a snapshot, and its bytes.
    fn sent(leader: &Snapshots, index: u64) -> (SnapshotBegin, Vec<u8>) {
        let image = leader.write(meta(index), &Store::default()).unwrap();
        let bytes = leader.disk.len(&image.path).unwrap();
        let all = leader.disk.read_at(&image.path, 0, usize::try_from(bytes).unwrap()).unwrap();
        (SnapshotBegin::new(&image.meta, bytes, all[..PREAMBLE_BYTES].to_vec()), all)
    }

    fn receive(receiver: &SnapshotReceiver, (begin, bytes): (SnapshotBegin, Vec<u8>)) -> SnapshotImage {
        assert_eq!(receiver.begin(begin), Ok(0));
        receiver.piece(&SnapshotChunk { offset: 0, bytes }).unwrap();
        receiver.end().unwrap()
    }

    #[test]
    fn one_that_is_being_loaded_is_not_touched_by_the_next_one_that_arrives() {
        let disk = Arc::new(MemoryDisk::default());
        let (leader, own) = (snapshots(&disk, "/leader"), snapshots(&disk, "/own"));
        let receiver = SnapshotReceiver::new(Arc::clone(&own));
        let first = receive(&receiver, sent(&leader, 10));
        let (begin, bytes) = sent(&leader, 20);
        assert_eq!(receiver.begin(begin), Ok(0));
        receiver.piece(&SnapshotChunk { offset: 0, bytes: bytes[..bytes.len() / 2].to_vec() }).unwrap();
        let adopted = own.adopt(first).unwrap();
        assert_eq!(snapshot::verify(&*own.disk, &adopted.path).unwrap(), meta(10));
        let rest = SnapshotChunk { offset: bytes.len() as u64 / 2, bytes: bytes[bytes.len() / 2..].to_vec() };
        receiver.piece(&rest).unwrap();
        let second = receiver.end().unwrap();
        receiver.discard(&second.path);
        let left = own.disk.list(own.dir()).unwrap();
        assert_eq!(left.len(), 1, "nothing but what was taken in is left: {left:?}");
    }

    #[test]
    fn an_older_one_that_was_being_written_takes_no_newer_ones_place() {
        let disk = Arc::new(MemoryDisk::default());
        let (leader, own) = (snapshots(&disk, "/leader"), snapshots(&disk, "/own"));
        let receiver = SnapshotReceiver::new(Arc::clone(&own));
        let newer = receive(&receiver, sent(&leader, 20));
        own.adopt(newer).unwrap();
        own.write(meta(10), &Store::default()).unwrap();
        assert_eq!(own.newest().unwrap().meta, meta(20));
        own.write(meta(30), &Store::default()).unwrap();
        assert_eq!(own.newest().unwrap().meta, meta(30));
        let left = own.disk.list(own.dir()).unwrap();
        assert!(left.len() == 2 && left.iter().all(|name| !name.contains("10-1")), "{left:?}");
    }
}

//! The narrow port to files: everything that this crate reads and writes goes through it, so that a test or a simulation
//! can refuse a sync or lose the power.

pub(crate) mod checked;
mod lock;
pub mod memory;
mod patient;
mod real;

use std::{
    io::{self, Read},
    path::Path,
};

pub(crate) use lock::{DirLock, Released};
pub use lock::{InUse, LockHold};
pub(crate) use patient::PatientDisk;
pub use real::RealDisk;

/// What a file system has, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Can be written by an ordinary user.
    pub free: u64,
    /// The size of all of it.
    pub total: u64,
}

/// Files and directories. Paths are whole, as the owner of the data directory gives them.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory, private to its owner, and those above it; it may be there.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Of a file, in bytes.
    fn len(&self, path: &Path) -> io::Result<u64>;
    /// A whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// `bytes` of a file from `offset` on; an error when there are fewer.
    fn read_at(&self, path: &Path, offset: u64, bytes: usize) -> io::Result<Vec<u8>>;
    /// A file to be read from its beginning.
    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;
    /// A new, empty file in place of whatever was there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// A file that takes up `bytes` on the disk, whatever is in it, in place of whatever was there.
    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<()>;
    /// Gives a file a length: what is longer is cut, what is shorter ends in a hole, which reads as zeros and takes up nothing
    /// until it is written to.
    fn set_len(&self, path: &Path, bytes: u64) -> io::Result<()>;
    /// A file that is there, to be written.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Replaces `to`; durable after [`Self::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Durable after [`Self::sync_dir`].
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Of the file system that a directory lies in.
    fn space(&self, dir: &Path) -> io::Result<DiskSpace>;
    /// Takes a directory for this process until the hold is dropped; it is let go of when the process ends in any way.
    fn hold(&self, dir: &Path) -> io::Result<Result<LockHold, InUse>>;
    /// Begins work on this disk that nobody waits for yet; none when it cannot be begun.
    fn begin(&self, work: PreparedFile) -> Option<PreparedFile>;
    /// Waits a little, because a write has found no space and somebody may make some.
    fn wait_for_room(&self);
}

/// Work on a disk: calling it carries it out, or waits for the end of what was begun elsewhere.
pub type PreparedFile = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Written at once where a file is filled with zeros.
const ZEROS_BYTES: usize = 1 << 20;

/// Fills a part of a file with zeros, from one offset to another.
pub(crate) fn write_zeros(file: &mut dyn DiskFile, mut from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    while from < to {
        let chunk = &zeros[..usize::try_from(to - from).unwrap_or(ZEROS_BYTES).min(ZEROS_BYTES)];
        file.write_at(chunk, from)?;
        from += chunk.len() as u64;
    }
    Ok(())
}

/// A file open for writing.
pub trait DiskFile: Send {
    /// Writes all of `bytes`, beyond the end if need be.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes everything written durable, and the length with it.
    fn sync(&mut self) -> io::Result<()>;
}

//! The next segment, written full of zeros ahead of time: a sync of a file whose length and blocks do not change is one
//! write to the disk instead of two. Its length is also what distinguishes a torn write from a file that was cut short.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    OpenError,
    disk::{self, Disk, PreparedFile},
};

/// Where it is made.
fn path(log_dir: &Path) -> PathBuf {
    log_dir.join("spare")
}

/// Checks that nothing stands in its place that cannot be written: found out now rather than when it is needed.
pub(crate) fn check(disk: &dyn Disk, log_dir: &Path) -> Result<(), OpenError> {
    let path = path(log_dir);
    match disk.open(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OpenError::write(&path)(error)),
        _ => Ok(()),
    }
}

/// Makes one file at a time, beside everything else. Its disk must not wait for space: without space there is no spare.
pub(crate) struct Spare {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: u64,
    making: Option<PreparedFile>,
}

impl Spare {
    /// Files of `bytes` for the log in `dir`. Nothing is made yet.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, bytes: u64) -> Self {
        Self { disk, path: path(dir), bytes, making: None }
    }

    /// Begins to make the next one.
    pub fn begin(&mut self) {
        let (disk, path, bytes) = (Arc::clone(&self.disk), self.path.clone(), self.bytes);
        self.making = self.disk.begin(Box::new(move || fill(&*disk, &path, bytes)));
    }

    /// The path of a file full of zeros; of one that is a hole of the same length when there was no space for a full one.
    pub fn take(&mut self, disk: &dyn Disk) -> io::Result<&Path> {
        let is_filled = self.making.take().is_some_and(|making| making().is_ok());
        if !is_filled {
            disk.create(&self.path)?;
            disk.set_len(&self.path, self.bytes)?;
        }
        Ok(&self.path)
    }
}

impl Drop for Spare {
    /// Waits, lest zeros are written to a file that the next owner of the directory has put to use.
    fn drop(&mut self) {
        if let Some(making) = self.making.take() {
            making().ok();
        }
    }
}

fn fill(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<()> {
    // One that is there is filled again in place: on a full disk, what it gave up might not come back.
    let (mut file, written) = match disk.len(path) {
        Ok(length) => (disk.open(path)?, length),
        Err(_) => (disk.create(path)?, 0),
    };
    disk::write_zeros(&mut *file, 0, bytes.max(written))?;
    file.sync()
}

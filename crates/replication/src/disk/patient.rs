//! A disk whose writes wait for space. Every one of them can be repeated: it says what is to be where, whatever part of
//! it is there already. A sync that finds no space fails as any other, because nobody knows what it left behind.

use std::{
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use super::{Disk, DiskFile, DiskSpace, InUse, LockHold, PreparedFile};
use crate::space::Space;

/// The log's disk.
pub(crate) struct PatientDisk {
    disk: Arc<dyn Disk>,
    space: Arc<Space>,
}

impl PatientDisk {
    /// Writes to `disk`, and waits as `space` says.
    pub fn new(disk: Arc<dyn Disk>, space: Arc<Space>) -> Self {
        Self { disk, space }
    }

    fn file(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(PatientFile { file, space: Arc::clone(&self.space) })
    }
}

impl Disk for PatientDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.space.write(|| self.disk.create_dir(dir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.disk.len(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.disk.read(path)
    }

    fn read_at(&self, path: &Path, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.disk.read_at(path, offset, bytes)
    }

    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.disk.stream(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.space.write(|| self.disk.create(path)).map(|file| self.file(file))
    }

    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.space.write(|| self.disk.allocate(path, bytes))
    }

    fn set_len(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.space.write(|| self.disk.set_len(path, bytes))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(path).map(|file| self.file(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.space.write(|| self.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        self.disk.space(dir)
    }

    fn hold(&self, dir: &Path) -> io::Result<Result<LockHold, InUse>> {
        self.disk.hold(dir)
    }

    fn begin(&self, work: PreparedFile) -> Option<PreparedFile> {
        self.disk.begin(work)
    }

    fn wait_for_room(&self) {
        self.disk.wait_for_room();
    }
}

struct PatientFile {
    file: Box<dyn DiskFile>,
    space: Arc<Space>,
}

impl DiskFile for PatientFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.space.write(|| self.file.write_at(bytes, offset))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

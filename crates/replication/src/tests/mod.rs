//! Tests of the whole, on a disk in memory that can fail and lose its power.

mod bits;
mod damage;
mod faults;
mod keep;
mod suite;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::{path::PathBuf, sync::Arc};

use self::support::Recorder;
use crate::{Config, OpenError, Replication, disk::memory::MemoryDisk, open};

/// Small, so that a test fills many.
const SEGMENT_BYTES: u64 = 16 << 10;

/// A server's disk, and where its lock lies.
struct Server {
    disk: Arc<MemoryDisk>,
    dir: tempfile::TempDir,
    config: Config,
}

impl Server {
    fn new() -> Self {
        Self::on(MemoryDisk::default())
    }

    fn on(disk: MemoryDisk) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { snapshot_entries: 1_000_000, ..Config::new(dir.path(), "test") };
        // Paths on the disk must not depend on the directory of the lock, so that a copy can be opened elsewhere.
        Self { disk: Arc::new(disk), dir, config }
    }

    async fn open(&self) -> Result<(Replication, Arc<Recorder>), OpenError> {
        let recorder = Arc::new(Recorder::default());
        let observer = Arc::clone(&recorder);
        let disk = Arc::clone(&self.disk);
        let log = open::open(self.config.clone(), observer, disk, SEGMENT_BYTES).await?;
        Ok((log, recorder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

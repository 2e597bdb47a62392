//! Tests of the whole, on a disk in memory that can fail and lose its power.

mod ahead;
mod bits;
mod cluster;
mod cut;
mod damage;
mod far_behind;
mod faults;
mod full;
mod golden;
mod keep;
mod parts;
mod restore;
mod senders;
mod suite;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::{path::PathBuf, sync::Arc};

use self::support::Recorder;
use crate::{Config, OpenError, Replication, disk::memory::MemoryDisk};

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
        let dir = tempfile::tempdir().unwrap();
        let config = Config { snapshot_entries: 1_000_000, ..Config::new(dir.path(), "test") };
        Self { disk: Arc::default(), dir, config }
    }

    /// Another machine with a copy of `disk`, which was this one's.
    fn with(&self, disk: &MemoryDisk) -> Self {
        let mut server = Self::new();
        server.config.snapshot_entries = self.config.snapshot_entries;
        server.disk = Arc::new(disk.moved(self.dir.path(), server.dir.path()));
        server
    }

    /// What is found after somebody pulls the plug now; nothing that was not synced survives.
    fn after_power_cut(&self) -> Self {
        self.with(&self.disk.after_power_cut(|| false))
    }

    async fn open(&self) -> Result<(Replication, Arc<Recorder>), OpenError> {
        let recorder = Arc::new(Recorder::default());
        let observer = Arc::clone(&recorder);
        let disk = Arc::clone(&self.disk);
        let log = Replication::open_on(disk, SEGMENT_BYTES, self.config.clone(), observer).await?;
        Ok((log, recorder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The segments of the log, oldest first.
    fn segments(&self) -> Vec<PathBuf> {
        self.files(".log")
    }

    /// The snapshots, oldest first.
    fn snapshots(&self) -> Vec<PathBuf> {
        self.files(".snap")
    }

    fn files(&self, suffix: &str) -> Vec<PathBuf> {
        self.disk.paths().into_iter().filter(|path| path.to_string_lossy().ends_with(suffix)).collect()
    }
}

/// Proposes one small job at each index.
async fn propose(log: &Replication, indexes: std::ops::Range<u64>) {
    for index in indexes {
        log.propose(support::register(index)).await.unwrap();
    }
}

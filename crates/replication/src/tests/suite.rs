//! The consensus engine's own tests of a log and a state machine.

use std::sync::Arc;

use openraft::{
    StorageError,
    testing::log::{StoreBuilder, Suite},
};

use super::{SEGMENT_BYTES, support::Recorder};
use crate::{
    Config, disk::memory::MemoryDisk, log::LogStore, machine::Machine, metrics::Counters, observer::Alarm,
    open, types::Types,
};

struct Build;

impl StoreBuilder<Types, LogStore, Machine, tempfile::TempDir> for Build {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore, Machine), StorageError<Types>> {
        let dir = tempfile::tempdir().unwrap();
        let observer = Arc::new(Recorder::default());
        let alarm = Arc::new(Alarm::new(observer.clone()));
        let disk = Arc::new(MemoryDisk::default());
        let config = Config::new(dir.path(), "suite");
        let counters = Arc::new(Counters::default());
        let (log, machine) = open::recover(&config, observer, disk, SEGMENT_BYTES, counters, alarm).unwrap();
        Ok((dir, log.store, machine))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_and_the_state_machine_are_what_consensus_expects() {
    Suite::test_all(Build).await.unwrap();
}

//! The consensus engine's own tests of a log and a state machine, as far as they keep to its rules.

use std::sync::Arc;

use openraft::{
    StorageError,
    testing::log::{StoreBuilder, Suite},
};

use super::{SEGMENT_BYTES, support::Recorder};
use crate::{
    Config, disk::memory::MemoryDisk, log::LogStore, machine::Machine, metrics::Counters, observer::Alarm,
    open, runtime::Tokio, types,
};

struct Build;

type Types = types::Types<Tokio>;
type Log = LogStore<Tokio>;

impl StoreBuilder<Types, Log, Machine, tempfile::TempDir> for Build {
    async fn build(&self) -> Result<(tempfile::TempDir, Log, Machine), StorageError<Types>> {
        let dir = tempfile::tempdir().unwrap();
        let observer = Arc::new(Recorder::default());
        let alarm = Arc::new(Alarm::new(observer.clone()));
        let disk = Arc::new(MemoryDisk::default());
        let config = Config::new(dir.path(), "suite");
        let counters = Arc::new(Counters::default());
        let (lock, _) = open::hold(&*disk, dir.path()).unwrap();
        let found = open::recover(&config, lock, observer, disk, SEGMENT_BYTES, counters, alarm).unwrap();
        Ok((dir, found.log.store, found.machine))
    }
}

type All = Suite<Types, Log, Machine, Build, tempfile::TempDir>;

macro_rules! suite {
    ($($test:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            let (_dir, log, machine) = Build.build().await.unwrap();
            All::$test(log, machine).await.unwrap();
        }
    )*};
}

// Those that are left out append to an empty log from an index other than 0, or take a snapshot of nothing; neither
// happens, and this log refuses both.
suite! {
    append_to_log
    apply_multiple
    apply_single
    delete_logs_after_0
    delete_logs_after_11
    delete_logs_after_5
    delete_logs_after_none
    entries_stream
    get_initial_state_last_log_gt_sm
    get_initial_state_membership_from_empty_log_and_sm
    get_initial_state_membership_from_log_insm_is_smaller
    get_initial_state_with_state
    get_initial_state_without_init
    get_log_entries
    get_log_id
    get_log_state
    get_membership_from_empty_log_and_sm
    get_membership_initial
    initial_logs
    last_applied_state
    last_id_in_log
    last_membership_in_log_initial
    leader_bounded_stream
    limited_get_log_entries
    log_reader_reads_new_entries
    purge_logs_upto_0
    purge_logs_upto_20
    purge_logs_upto_5
    save_vote
    snapshot_meta
    snapshot_meta_optional
    try_get_log_entry
}

//! The power fails while the end of the log is removed, as a follower does when its leader has other records.

use std::sync::{Arc, atomic::Ordering};

use openraft::{
    RaftLogReader,
    storage::{RaftLogStorage, RaftLogStorageExt},
};

use super::{SEGMENT_BYTES, Server, support};
use crate::{
    OpenError,
    disk::memory::MemoryDisk,
    log::{self, LogStore, OpenLog},
    metrics::Counters,
    observer::Alarm,
    open::{self, RecoveredServer},
    runtime::Tokio,
    space::Space,
    types::{LogEntry, LogId, Payload, Proposal, Vote, log_id},
};

/// Records that are there before the cut; they fill several segments.
const RECORDS: u64 = 120;
/// The last record that stays: in the middle of the first segment, at its end, and near the end of the log.
const KEPT: [u64; 4] = [3, 30, 60, RECORDS - 3];

impl Server {
    /// The log without consensus.
    pub(super) fn open_log(&self) -> Result<RecoveredServer<Tokio>, OpenError> {
        let observer = Arc::new(support::Recorder::default());
        let alarm = Arc::new(Alarm::new(observer.clone()));
        let disk: Arc<MemoryDisk> = Arc::clone(&self.disk);
        let (lock, _) = open::hold(&*disk, self.dir.path())?;
        open::recover(&self.config, lock, observer, disk, SEGMENT_BYTES, Arc::new(Counters::default()), alarm)
    }

    /// Another machine that finds what a power cut left; each sector and name as chance has it.
    fn after_random_cut(&self, mut seed: u64) -> Self {
        self.with(&self.disk.after_power_cut(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 63 == 1
        }))
    }
}

pub(super) fn records(term: u64, indexes: std::ops::Range<u64>) -> Vec<LogEntry> {
    let payload = |index| Payload::Normal(Proposal::new(support::register(index).into()));
    indexes.map(|index| LogEntry { log_id: log_id(term, index), payload: payload(index) }).collect()
}

/// Appends one by one, so that each record knows that the one before it is durable.
pub(super) async fn append(log: &mut LogStore<Tokio>, term: u64, indexes: std::ops::Range<u64>) {
    log.save_vote(&Vote::new_committed(term, 1)).await.unwrap();
    for record in records(term, indexes) {
        log.blocking_append([record]).await.unwrap();
    }
}

/// A log that was cut after `keep`, with the power going off at a step of that; whether the cut came to its end.
async fn cut_until(step: usize, keep: LogId) -> (Server, bool) {
    let server = Server::new();
    let mut found = server.open_log().unwrap();
    append(&mut found.log.store, 1, 0..RECORDS).await;
    assert!(server.segments().len() > 2);
    let faults = server.disk.faults();
    faults.power_off_after.store(faults.steps.load(Ordering::SeqCst) + step, Ordering::SeqCst);
    let done = found.log.store.truncate_after(Some(keep)).await.is_ok();
    (server, done)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_at_any_step_of_a_cut_is_no_damage() {
    for keep in KEPT.map(|index| log_id(1, index)) {
        for step in 1.. {
            let (server, done) = cut_until(step, keep).await;
            for seed in 0..4 {
                let cut = server.after_random_cut(seed + step as u64 * 7);
                let mut found = cut
                    .open_log()
                    .unwrap_or_else(|error| panic!("keep {keep}, step {step}, seed {seed}: {error}"));
                let last = found.log.ends.1.unwrap();
                let uncut = log_id(1, RECORDS - 1);
                assert!(last == keep || last == uncut && !done, "keep {keep}, step {step}: {last}");
                goes_on(&cut, &mut found, last).await;
            }
            if done {
                assert!(step > 5, "a cut has only {step} steps");
                break;
            }
        }
    }
}

/// What was kept is there as it was written, and another leader's records follow it.
async fn goes_on(server: &Server, found: &mut RecoveredServer<Tokio>, last: LogId) {
    append(&mut found.log.store, 2, last.index() + 1..last.index() + 20).await;
    let entries = found.log.store.try_get_log_entries(..).await.unwrap();
    let names: Vec<LogId> = entries.iter().map(|entry| entry.log_id).collect();
    let old = (0..=last.index()).map(|index| log_id(1, index));
    let expected = old.chain((last.index() + 1..last.index() + 20).map(|index| log_id(2, index)));
    assert_eq!(names, expected.collect::<Vec<_>>());
    let again = server.after_power_cut().open_log().unwrap();
    assert_eq!(again.log.ends.1, Some(log_id(2, last.index() + 19)));
}

impl Server {
    /// The log alone, without the snapshot that it follows.
    fn open_only_log(&self) -> Result<OpenLog<Tokio>, OpenError> {
        let disk: Arc<MemoryDisk> = Arc::clone(&self.disk);
        let (lock, _) = open::hold(&*disk, self.dir.path()).unwrap();
        let space = Arc::new(Space::new(disk.clone(), self.dir.path(), SEGMENT_BYTES));
        let alarm = Arc::new(Alarm::new(Arc::new(support::Recorder::default())));
        log::open(disk, space, self.path("log"), true, SEGMENT_BYTES, Arc::default(), alarm, Arc::new(lock))
    }
}

/// A follower has taken in a snapshot that lies beyond its log: the log begins again behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_at_any_step_of_a_new_beginning_is_no_damage() {
    let upto = log_id(2, RECORDS + 100);
    for step in 1.. {
        let server = Server::new();
        let mut found = server.open_log().unwrap();
        append(&mut found.log.store, 2, 0..RECORDS).await;
        let faults = server.disk.faults();
        faults.power_off_after.store(faults.steps.load(Ordering::SeqCst) + step, Ordering::SeqCst);
        let done = found.log.store.purge(upto).await.is_ok();
        for seed in 0..4 {
            let cut = server.after_random_cut(seed + step as u64 * 7);
            let found =
                cut.open_only_log().unwrap_or_else(|error| panic!("step {step}, seed {seed}: {error}"));
            match found.ends {
                (Some(purged), Some(last)) => assert_eq!((purged, last), (upto, upto), "step {step}"),
                ends => {
                    assert!(!done && ends == (None, Some(log_id(2, RECORDS - 1))), "step {step}: {ends:?}")
                }
            }
            if found.ends.0.is_some() {
                assert_eq!(cut.segments().len(), 1, "step {step}: segments of the old log are left");
            }
        }
        if done {
            assert!(step > 5, "a new beginning has only {step} steps");
            break;
        }
    }
}

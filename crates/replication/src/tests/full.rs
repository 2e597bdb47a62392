//! The disk is full: what is proposed is refused with the reason, what was taken in waits, and nothing ends.

use std::sync::atomic::Ordering;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt};

use super::{SEGMENT_BYTES, Server, propose, support};
use crate::{DiskFull, NotWritten, ProposeError, Replication, SnapshotError, disk::Disk, types::Vote};

impl Server {
    /// Somebody else takes all space but `left` bytes.
    fn leave_room(&self, left: u64) {
        self.disk.faults().capacity.store(self.disk.used() + left as usize, Ordering::SeqCst);
    }

    /// Somebody else takes all space, and what is given up from now on.
    fn leave_nothing(&self) {
        self.disk.faults().capacity.store(1, Ordering::SeqCst);
    }

    fn make_room(&self) {
        self.disk.faults().capacity.store(0, Ordering::SeqCst);
    }
}

/// Proposes until the disk is full; the reason, and the first index that was not written.
async fn fill(log: &Replication, first: u64) -> (DiskFull, u64) {
    for index in first.. {
        match log.propose(support::register(index)).await {
            Ok(_) => {}
            Err(ProposeError::NotWritten(NotWritten::DiskFull(reason))) => return (reason, index),
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("every disk is full one day")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_serves_reads_and_goes_on_when_there_is_space() {
    let server = Server::new();
    let (log, recorder) = server.open().await.unwrap();
    propose(&log, 1..20).await;
    server.leave_room(10 * SEGMENT_BYTES);
    let (reason, refused) = fill(&log, 20).await;
    assert!(reason.free < reason.needed && reason.needed >= SEGMENT_BYTES, "{reason}");
    assert!(
        reason.to_string().contains("disk full") && reason.to_string().contains("are needed"),
        "{reason}"
    );
    assert!(refused > 100, "refused with much room: {refused}");
    assert_eq!(log.writable(), Err(NotWritten::DiskFull(reason)));
    log.linearize().await.unwrap();
    assert_eq!(recorder.index(), refused - 1);
    server.make_room();
    assert_eq!(log.writable(), Ok(()));
    propose(&log, refused..refused + 50).await;
    assert_eq!(*recorder.fatal.lock().unwrap(), Vec::<String>::new());
    log.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_on_a_disk_without_any_space() {
    let server = Server::new();
    let (log, before) = server.open().await.unwrap();
    propose(&log, 1..20).await;
    log.shutdown().await.unwrap();
    let hash = before.hash();
    // Each start has only what the ones before it have left of the reserve.
    for _ in 0..5 {
        server.leave_room(0);
        let (log, after) = server.open().await.unwrap();
        assert_eq!(after.hash(), hash);
        let refused = log.propose(support::register(20)).await;
        assert!(matches!(refused, Err(ProposeError::NotWritten(NotWritten::DiskFull(_)))), "{refused:?}");
        log.shutdown().await.unwrap();
    }
    server.make_room();
    let (log, _) = server.open().await.unwrap();
    propose(&log, 20..30).await;
    log.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_waits_for_space() {
    let server = Server::new();
    let mut found = server.open_log().unwrap();
    found.log.store.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    found.space.set_waits(true);
    server.leave_room(SEGMENT_BYTES);
    let mut store = found.log.store;
    let last = super::cut::records(1, 0..1000);
    let append = tokio::spawn(async move {
        for record in last {
            store.blocking_append([record]).await.unwrap();
        }
        store.get_log_state().await.unwrap().last_log_id.unwrap().index()
    });
    while found.space.check(0).is_ok() || !found.space.is_blocked() {
        tokio::task::yield_now().await;
    }
    assert!(!append.is_finished());
    // A vote is behind it in the queue, and is written in its turn.
    server.make_room();
    assert_eq!(append.await.unwrap(), 999);
    assert_eq!(found.space.check(0), Ok(()));
}

/// Without space for a segment of zeros one is begun that is a hole. Its length tells as well whether it was cut short.
#[tokio::test(flavor = "multi_thread")]
async fn a_segment_begun_without_space_is_as_long_as_any() {
    let server = Server::new();
    let mut found = server.open_log().unwrap();
    server.leave_room(SEGMENT_BYTES / 2);
    super::cut::append(&mut found.log.store, 1, 0..100).await;
    let newest = server.segments().pop().unwrap();
    assert_eq!(server.segments().len(), 3, "the last of them had no room");
    assert!(server.disk.used() as u64 <= 4 * SEGMENT_BYTES, "a hole takes up only what is written");
    server.make_room();
    for bytes in [SEGMENT_BYTES, SEGMENT_BYTES - 1] {
        let cut = server.after_power_cut();
        let newest = cut.path("log").join(newest.file_name().unwrap());
        assert_eq!(cut.disk.len(&newest).unwrap(), SEGMENT_BYTES);
        cut.disk.set_len(&newest, bytes).unwrap();
        let opened = cut.open_log().map(|found| found.log.ends.1.unwrap().index());
        match opened {
            Ok(last) => assert_eq!((last, bytes), (99, SEGMENT_BYTES)),
            Err(error) => {
                assert!(bytes < SEGMENT_BYTES && error.to_string().contains("cut short"), "{error}")
            }
        }
    }
}

/// The power fails in the middle of a record, in a segment that had no space to be written in full, and there still is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_record_is_wiped_without_any_space() {
    let server = Server::new();
    let mut found = server.open_log().unwrap();
    server.leave_room(SEGMENT_BYTES / 2);
    super::cut::append(&mut found.log.store, 1, 0..100).await;
    let newest = server.segments().pop().unwrap();
    server.make_room();
    let cut = server.after_power_cut();
    let newest = cut.path("log").join(newest.file_name().unwrap());
    let mut torn = cut.disk.read(&newest).unwrap();
    let last_sector = torn.iter().rposition(|byte| *byte != 0).unwrap() / 512 * 512;
    torn[last_sector..].fill(0);
    let zeros = [0; 512];
    cut.disk.open(&newest).unwrap().write_at(&zeros, last_sector as u64).unwrap();
    cut.leave_nothing();
    let found = cut.open_log().expect("it is no damage, and takes no room");
    assert!((84..99).contains(&found.log.ends.1.unwrap().index()));
    let wiped = cut.disk.read(&newest).unwrap();
    assert!(wiped != torn && wiped.len() == torn.len(), "what was left of the torn record is gone");
    assert!(wiped.iter().zip(&torn).all(|(wiped, torn)| wiped == torn || *wiped == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_without_space_is_discarded_and_the_log_goes_on() {
    let server = Server::new();
    let (log, recorder) = server.open().await.unwrap();
    propose(&log, 1..300).await;
    server.leave_nothing();
    let failed = log.snapshot_now().await;
    assert!(matches!(&failed, Err(SnapshotError::Failed(_))), "{failed:?}");
    assert_eq!(server.files(".next"), [""; 0].map(std::path::PathBuf::from), "half a snapshot was left");
    server.make_room();
    log.snapshot_now().await.unwrap();
    propose(&log, 300..302).await;
    server.leave_nothing();
    let failed = log.snapshot_now().await.unwrap_err().to_string();
    assert!(failed.contains("disk full"), "{failed}");
    server.make_room();
    propose(&log, 302..400).await;
    log.snapshot_now().await.unwrap();
    assert_eq!(*recorder.fatal.lock().unwrap(), Vec::<String>::new());
    log.shutdown().await.unwrap();
}

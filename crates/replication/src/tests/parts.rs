//! A part of the log fails in its own way: the server is told why, or goes on without it.

use std::sync::{Arc, Mutex, atomic::Ordering};

use berth_model::{event::AppliedEntry, store::Store};

use super::{SEGMENT_BYTES, Server, propose, support};
use crate::{Leadership, Observer, ProposeError, Replication, SnapshotError, UnknownOutcome};

/// Panics when it is told of an index, or that the leader has ended.
#[derive(Default)]
struct FragileObserver {
    panics_at: u64,
    panics_at_end: bool,
    fatal: Mutex<Vec<String>>,
}

impl FragileObserver {
    /// What was fatal, once something was: the proposers' answers may come before it.
    async fn fatal(&self) -> Vec<String> {
        while self.fatal.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        self.fatal.lock().unwrap().clone()
    }
}

impl Observer for FragileObserver {
    fn on_applied(&self, store: &Store, _: &[AppliedEntry]) {
        assert!(store.index().0 < self.panics_at, "the view is upside down");
    }

    fn on_restored(&self, _: &Store) {}

    fn on_leadership(&self, _: u64, leadership: Leadership) {
        assert!(leadership == Leadership::Own || !self.panics_at_end, "no leader, no fun");
    }

    fn on_fatal(&self, reason: &str) {
        self.fatal.lock().unwrap().push(reason.to_owned());
    }
}

async fn open_with(server: &Server, observer: &Arc<FragileObserver>) -> Replication {
    let (observer, disk) = (Arc::clone(observer), Arc::clone(&server.disk));
    Replication::open_on(disk, SEGMENT_BYTES, server.config.clone(), observer).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_entries_are_applied_is_fatal_and_says_what_it_was() {
    let server = Server::new();
    let observer = Arc::new(FragileObserver { panics_at: 5, ..FragileObserver::default() });
    let log = open_with(&server, &observer).await;
    propose(&log, 1..5).await;
    let failed = log.propose(support::register(5)).await;
    assert!(matches!(&failed, Err(ProposeError::Unknown(UnknownOutcome::Stopped(_)))), "{failed:?}");
    assert_eq!(observer.fatal().await, ["apply log records: internal error: the view is upside down"]);
    let after = log.propose(support::register(6)).await;
    assert!(matches!(after, Err(ProposeError::Unknown(UnknownOutcome::Stopped(_)))), "{after:?}");
    log.shutdown().await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_observer_of_leadership_is_fatal() {
    let server = Server::new();
    let observer =
        Arc::new(FragileObserver { panics_at: u64::MAX, panics_at_end: true, ..FragileObserver::default() });
    let log = open_with(&server, &observer).await;
    log.shutdown().await.ok();
    assert_eq!(observer.fatal().await, ["tell who leads: internal error: no leader, no fun"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_cannot_be_read_back_replaces_nothing() {
    let server = Server::new();
    let (log, before) = server.open().await.unwrap();
    for round in 0..3 {
        propose(&log, 1 + round * 50..1 + (round + 1) * 50).await;
        log.snapshot_now().await.unwrap();
    }
    let (snapshots, segments) = (server.snapshots(), server.segments());
    propose(&log, 151..200).await;
    server.disk.faults().garbled.store(true, Ordering::SeqCst);
    let failed = log.snapshot_now().await;
    assert!(
        matches!(&failed, Err(SnapshotError::Failed(why)) if why.contains("read back") && why.contains(".snap")),
        "{failed:?}"
    );
    assert_eq!(server.snapshots(), snapshots);
    assert!(server.segments().starts_with(&segments), "the log was cut for it");
    propose(&log, 200..210).await;
    log.shutdown().await.unwrap();
    let (log, after) = server.open().await.unwrap();
    assert_eq!(after.hash(), before.hash());
    log.shutdown().await.unwrap();
}

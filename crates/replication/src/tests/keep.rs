//! What was acknowledged is there after a restart, however the last run ended.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use berth_model::{
    Index,
    command::{Command, ENTRY_BYTES_MAX, ENTRY_VERSION, Entry},
};

use super::{Server, propose, support};
use crate::{Config, NotWritten, OpenError, Pending, Replication};

#[tokio::test]
async fn a_restart_keeps_everything() {
    let server = Server::new();
    let (log, before) = server.open().await.unwrap();
    propose(&log, 1..200).await;
    assert_eq!(log.term(), 1);
    log.shutdown().await.unwrap();
    let (log, after) = server.open().await.unwrap();
    assert_eq!(after.hash(), before.hash());
    assert_eq!(after.index(), 199);
    // That the last one is committed is known only when this server leads again.
    assert_eq!(log.metrics().replayed_entries, 198);
    assert_eq!(*after.applied.lock().unwrap(), [199]);
    assert_eq!((log.term(), log.is_leader()), (2, true));
    propose(&log, 200..210).await;
    assert_eq!(after.index(), 209);
    log.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_power_cut_keeps_what_was_acknowledged() {
    let server = Server::new();
    let (log, before) = server.open().await.unwrap();
    propose(&log, 1..100).await;
    let (next, after) = server.after_power_cut().open().await.unwrap();
    assert_eq!(after.hash(), before.hash());
    next.shutdown().await.unwrap();
    log.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_dropped_log_ends_and_can_be_opened_again() {
    let server = Server::new();
    let (log, before) = server.open().await.unwrap();
    propose(&log, 1..50).await;
    drop(log);
    let (log, after) = loop {
        match server.open().await {
            Err(OpenError::InUse { .. }) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            opened => break opened.unwrap(),
        }
    };
    assert_eq!(after.hash(), before.hash());
    log.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_snapshot_and_a_short_log_give_the_same_state() {
    let server = Server::new();
    let (log, before) = server.open().await.unwrap();
    for round in 0..4 {
        propose(&log, 1 + round * 2000..1 + (round + 1) * 2000).await;
        log.snapshot_now().await.unwrap();
    }
    propose(&log, 8001..8010).await;
    assert_eq!(log.metrics().snapshots, 4);
    assert_eq!(server.snapshots().len(), 2);
    log.shutdown().await.unwrap();
    let (log, after) = server.open().await.unwrap();
    assert_eq!(after.restored.load(Ordering::SeqCst), 1);
    assert_eq!(after.hash(), before.hash());
    assert_eq!(log.metrics().replayed_entries, 8, "the log was replayed from before the snapshot");
    assert!(!server.segments()[0].ends_with("00000000000000000000.log"), "the log was not purged");
    log.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_written_while_entries_are_applied() {
    let mut server = Server::new();
    server.config.snapshot_entries = 50;
    let (log, before) = server.open().await.unwrap();
    propose(&log, 1..2000).await;
    assert!(log.metrics().snapshots >= 4, "{:?}", log.metrics());
    let cut = server.after_power_cut();
    log.shutdown().await.unwrap();
    let (log, after) = cut.open().await.unwrap();
    assert_eq!(after.hash(), before.hash());
    log.shutdown().await.unwrap();
}

async fn submit(log: &Replication, index: u64) -> Pending {
    log.submit(log.term(), support::grant(index)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_applied_in_the_order_in_which_they_were_submitted() {
    let server = Server::new();
    let (log, recorder) = server.open().await.unwrap();
    let mut pending = Vec::new();
    for index in 1..5000 {
        pending.push((index, submit(&log, index).await));
    }
    for (index, pending) in pending {
        assert_eq!(pending.applied().await.unwrap().index.0, index);
        assert!(recorder.index() >= index, "answered before the observer was told");
    }
    assert_eq!(*recorder.applied.lock().unwrap(), (1..5000).collect::<Vec<_>>());
    let metrics = log.metrics();
    assert!(metrics.fsyncs < metrics.log_entries / 2, "{metrics:?}");
    log.linearize().await.unwrap();
    // The engine publishes what it has applied in several places, one after the other.
    let started_at = Instant::now();
    while log.last_applied_log() != Some(5000) {
        assert!(started_at.elapsed() < Duration::from_secs(10), "{:?}", log.last_applied_log());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    log.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_entry_that_is_too_large_is_refused_and_one_that_just_fits_is_kept() {
    let server = Server::new();
    let (log, before) = server.open().await.unwrap();
    let many =
        |count: usize| Entry { commands: vec![Command::GrantIndexes(Index(1)); count], ..support::grant(1) };
    let refused = log.propose(many(ENTRY_BYTES_MAX)).await;
    let bytes = many(ENTRY_BYTES_MAX).encode().len();
    assert_eq!(refused, Err(NotWritten::TooLarge { bytes, max: ENTRY_BYTES_MAX }.into()));
    let each = (many(1001).encode().len() - many(1).encode().len()) / 1000;
    let fits = many(ENTRY_BYTES_MAX / each - 10);
    assert!(fits.encode().len() > ENTRY_BYTES_MAX * 9 / 10);
    log.propose(fits).await.unwrap();
    propose(&log, 2..10).await;
    log.shutdown().await.unwrap();
    let (log, after) = server.open().await.unwrap();
    assert_eq!(after.hash(), before.hash());
    log.shutdown().await.unwrap();
}

/// A start checks the versions of those records that it applies. A server that votes alone applies the rest before it is open;
/// of several, whatever follows may yet be replaced by a leader's.
#[tokio::test]
async fn a_record_of_a_newer_version_is_named_though_it_is_not_known_to_be_committed() {
    let server = Server::new();
    let (log, _) = server.open().await.unwrap();
    for index in 1..4 {
        log.propose(Entry { version: ENTRY_VERSION - 1, ..support::grant(index) }).await.unwrap();
    }
    log.propose(support::grant(4)).await.unwrap();
    log.shutdown().await.unwrap();
    let older = Server { config: Config { entries: ENTRY_VERSION - 1, ..server.config.clone() }, ..server };
    let refused = match older.open().await {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    };
    let known = ENTRY_VERSION - 1;
    assert!(refused.contains(&format!("version {ENTRY_VERSION}")), "{refused}");
    assert!(refused.contains(&format!("up to {known}")), "{refused}");
}

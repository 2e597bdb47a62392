//! A snapshot that replaces the state comes through the log: a restart in the middle forgets none of it.

use berth_model::{
    Index,
    command::{Command, Entry, RestorePart},
    store::{Store, snapshot},
};

use super::{Server, propose, support};

/// The entries that restore a store, beginning at an index.
fn parts(store: &Store, first: u64) -> Vec<Entry> {
    let mut records = Vec::new();
    snapshot::write_records(store, &mut records).unwrap();
    let entry = |(number, bytes): (usize, &[u8])| {
        let part = RestorePart {
            number: number as u32,
            bytes: bytes.to_vec(),
            granted: Index(0),
            revives_tokens: None,
        };
        Entry { commands: vec![Command::RestorePart(part)], ..support::grant(first + number as u64) }
    };
    records.chunks(1000).enumerate().map(entry).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_goes_on_after_a_power_cut() {
    let mut server = Server::new();
    let (log, saved) = server.open().await.unwrap();
    propose(&log, 1..300).await;
    let saved = saved.store.lock().unwrap().clone();
    log.shutdown().await.unwrap();

    server = Server::new();
    // Were the state written in the middle of a restore, what of the snapshot has come would be lost with the log.
    server.config.snapshot_entries = 5;
    let (log, _) = server.open().await.unwrap();
    propose(&log, 1..50).await;
    let parts = parts(&saved, 50);
    assert!(parts.len() > 50, "{} parts", parts.len());
    let (before, after) = parts.split_at(parts.len() - 10);
    for entry in before {
        log.propose(entry.clone()).await.unwrap();
    }
    let cut = server.after_power_cut();
    log.shutdown().await.unwrap();
    let (log, recorder) = cut.open().await.unwrap();
    for entry in after {
        assert_eq!(log.propose(entry.clone()).await.unwrap().outcomes, [Ok(())]);
    }
    let jobs = |store: &Store| store.jobs().iter().map(|(_, row)| row.key.clone()).collect::<Vec<_>>();
    assert_eq!(jobs(&recorder.store.lock().unwrap()), jobs(&saved));
    let index = recorder.index();
    propose(&log, index + 1..index + 20).await;
    let cut = cut.after_power_cut();
    log.shutdown().await.unwrap();
    let (log, again) = cut.open().await.unwrap();
    assert_eq!(again.hash(), recorder.hash());
    log.shutdown().await.unwrap();
}

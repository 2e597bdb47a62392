//! What others have committed before this server's own disk had taken it is no loss.

use std::sync::Arc;

use openraft::{
    EntryPayload,
    storage::{IOFlushed, RaftLogStorage},
    type_config::TypeConfigExt,
    vote::leader_id_std::LeaderId,
};

use super::{SEGMENT_BYTES, Server, support::Recorder};
use crate::{
    log::OpenLog,
    metrics::Counters,
    observer::Alarm,
    open,
    runtime::Tokio,
    types::{LogEntry, Types, Vote, log_id},
};

fn log_of(server: &Server) -> OpenLog<Tokio> {
    let observer = Arc::new(Recorder::default());
    let alarm = Arc::new(Alarm::new(observer.clone()));
    let (lock, _) = open::hold(&*server.disk, server.dir.path()).unwrap();
    let disk = Arc::clone(&server.disk);
    let counters = Arc::new(Counters::default());
    open::recover(&server.config, lock, observer, disk, SEGMENT_BYTES, counters, alarm).unwrap().log
}

#[tokio::test]
async fn a_server_starts_without_a_committed_record_that_it_had_not_synced() {
    let server = Server::new();
    let mut log = log_of(&server).store;
    let vote = Vote { leader_id: LeaderId { term: 1, voted_for: 2 }, committed: true };
    log.save_vote(&vote).await.unwrap();
    // The leader has it from another server that five records are committed, and this one writes the fourth.
    log.save_committed(Some(log_id(1, 4))).await.unwrap();
    let entries: Vec<LogEntry> =
        (0..4).map(|index| LogEntry { log_id: log_id(1, index), payload: EntryPayload::Blank }).collect();
    let (flushed, done) = Types::<Tokio>::oneshot();
    log.append(entries, IOFlushed::signal(flushed)).await.unwrap();
    done.await.unwrap().unwrap();

    let mut found = log_of(&server.after_power_cut());
    assert_eq!(found.ends.1, Some(log_id(1, 3)));
    assert_eq!(found.store.read_committed().await.unwrap(), Some(log_id(1, 3)));
}

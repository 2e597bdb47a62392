//! The way out when most servers are lost for good: what one server has becomes a cluster of one, in an era of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::Arc,
};

use berth_model::{event::AppliedEntry, store::Store};
use futures_util::future::BoxFuture;
use openraft::{
    EntryPayload, RaftLogReader,
    storage::{IOFlushed, RaftLogStorage},
    type_config::TypeConfigExt,
    vote::leader_id_std::LeaderId,
};

use crate::{
    Config, Leadership, Member, Observer, OpenError, SEGMENT_BYTES,
    disk::{Disk, RealDisk},
    era,
    log::OpenLog,
    machine::Machine,
    observer::Alarm,
    open::{self, RecoveredServer},
    runtime::{Runtime, Tokio},
    types::{LogEntry, LogId, Membership, Proposal, Types, Vote, log_id},
};

/// A server that is to be made the only one of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The server itself.
    pub own: Member,
    /// Those that are left out.
    pub left_out: Vec<Member>,
    /// The last record of its log: whatever only others have after it is lost.
    pub last_log: u64,
}

/// Whether that is right; an error says why nothing is changed.
pub type Agree<'a> = Box<dyn FnOnce(&Recovery) -> BoxFuture<'a, Result<(), String>> + Send + 'a>;

/// Makes the server of a data directory the only one of its cluster, with all that it has, if `agree` does. The server must
/// not run. Whatever only others had is lost, and they take part no more.
///
/// # Errors
/// When the directory is in use, is nobody's, is damaged, or cannot be written, or `agree` does not.
pub async fn recover_alone(
    data_dir: &Path,
    cluster_name: &str,
    agree: Agree<'_>,
) -> Result<Recovery, OpenError> {
    let nobodys = || OpenError::Config(format!("{} holds no server's log", data_dir.display()));
    let server_id = crate::server_id(&RealDisk, data_dir)?.ok_or_else(nobodys)?;
    let config = Config { server_id, ..Config::new(data_dir, cluster_name) };
    recover_on::<Tokio>(config, Arc::new(RealDisk), SEGMENT_BYTES, agree).await
}

/// See [`recover_alone`].
pub(crate) async fn recover_on<R: Runtime>(
    config: Config,
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    agree: Agree<'_>,
) -> Result<Recovery, OpenError> {
    let failed = |error: &dyn std::fmt::Display| OpenError::Consensus(error.to_string());
    let (lock, released) = open::hold(&*disk, &config.data_dir)?;
    let blocking = {
        let (config, observer) = (config.clone(), Arc::new(SilentObserver));
        let alarm = Arc::new(Alarm::new(observer.clone()));
        move || open::recover::<R>(&config, lock, observer, disk, segment_bytes, Arc::default(), alarm)
    };
    let recovered = R::blocking(blocking).await.map_err(|error| failed(&error)).flatten();
    let outcome = match recovered {
        Ok(recovered) => make_alone(recovered, &config, agree).await,
        Err(error) => Err(error),
    };
    released.wait().await;
    outcome
}

async fn make_alone<R: Runtime>(
    recovered: RecoveredServer<R>,
    config: &Config,
    agree: Agree<'_>,
) -> Result<Recovery, OpenError> {
    let RecoveredServer { mut log, mut machine, .. } = recovered;
    let (dir, own) = (config.data_dir.as_path(), config.server_id);
    let empty =
        || OpenError::Config(format!("{}: the log is empty, there is nothing to recover", dir.display()));
    let last = log.ends.1.ok_or_else(empty)?;
    // Whatever this server has was perhaps acknowledged: without the others nobody knows, and it is kept.
    machine = commit_all(machine, &mut log, last, dir).await?;
    let recovery = describe(&machine, own, last);
    agree(&recovery).await.map_err(OpenError::Config)?;
    let end = begin_era(&mut log, &machine, &recovery.own, last).await.map_err(OpenError::write(dir))?;
    machine = commit_all(machine, &mut log, end, dir).await?;
    let written = R::blocking(move || machine.write_snapshot()).await.flatten();
    written.map_err(OpenError::write(dir)).map(|()| recovery)
}

fn describe(machine: &Machine, own: u64, last: LogId) -> Recovery {
    let (mine, left_out) = machine.members().all.into_iter().partition(|member| member.id == own);
    let mine: Vec<Member> = mine;
    let unknown = || Member { id: own, peer: crate::Peer::default(), voter: true };
    let own = mine.into_iter().next().unwrap_or_else(unknown);
    Recovery { own, left_out, last_log: last.index() }
}

/// Takes the log up to a record for committed, and applies it.
async fn commit_all<R: Runtime>(
    mut machine: Machine,
    log: &mut OpenLog<R>,
    last: LogId,
    dir: &Path,
) -> Result<Machine, OpenError> {
    let committed = RaftLogStorage::<Types<R>>::save_committed(&mut log.store, Some(last)).await;
    committed.map_err(OpenError::write(dir))?;
    machine.replay(&log.store).map_err(OpenError::read(dir))?;
    Ok(machine)
}

/// Writes the vote and the first records of a new era, as the leader of a cluster of one would. The vote is first: a log
/// never holds what is newer than its vote.
async fn begin_era<R: Runtime>(
    log: &mut OpenLog<R>,
    machine: &Machine,
    own: &Member,
    last: LogId,
) -> io::Result<LogId> {
    let voted = RaftLogReader::<Types<R>>::read_vote(&mut log.store).await?;
    let term = voted.map_or(0, |vote| vote.leader_id.term).max(crate::types::term_of(&last));
    let term = era::next_term(term, own.id, &last);
    let vote = Vote { leader_id: LeaderId { term, voted_for: own.id }, committed: true };
    RaftLogStorage::<Types<R>>::save_vote(&mut log.store, &vote).await?;
    let alone = Membership::new(vec![BTreeSet::from([own.id])], BTreeMap::from([(own.id, own.peer.clone())]));
    let alone = alone.map_err(|error| io::Error::other(error.to_string()))?;
    let first = Proposal::new(era::first_entry(machine.store()).into());
    let payloads = [EntryPayload::Membership(alone), EntryPayload::Normal(first)];
    let ids = (last.index() + 1..).map(|index| log_id(term, index));
    let entries: Vec<LogEntry> =
        ids.zip(payloads).map(|(log_id, payload)| LogEntry { log_id, payload }).collect();
    let end = log_id(term, last.index() + entries.len() as u64);
    let (flushed, done) = Types::<R>::oneshot();
    RaftLogStorage::<Types<R>>::append(&mut log.store, entries, IOFlushed::signal(flushed)).await?;
    done.await.map_err(|error| io::Error::other(error.to_string()))??;
    Ok(end)
}

/// An observer that ignores everything.
struct SilentObserver;

impl Observer for SilentObserver {
    fn on_applied(&self, _: &Store, _: &[AppliedEntry]) {}

    fn on_restored(&self, _: &Store) {}

    fn on_leadership(&self, _: u64, _: Leadership) {}

    fn on_fatal(&self, _: &str) {}
}

//! The handle of a running log.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use berth_model::{
    command::{ENTRY_BYTES_MAX, EncodedEntry},
    event::AppliedEntry,
};
use openraft::{
    ReadPolicy,
    async_runtime::WatchReceiver,
    errors::{ClientWriteError, LinearizableReadError, RaftError},
    metrics::{RaftMetrics, WaitError},
    raft::ClientWriteResult,
};
use tokio::sync::{Semaphore, oneshot};

use crate::{
    ClusterConfig, Config, DiskFull, Metrics, NotWritten, Observer, OpenError, Peer, ProposeError, ReadError,
    ShutdownError, SnapshotError, Start, UnknownOutcome,
    departed::Departed,
    disk::{Disk, RealDisk, Released},
    log::{RaftPromises, SEGMENT_BYTES, Tail, WriterEnded},
    machine::SnapshotDemand,
    metrics::Counters,
    open,
    peer::Peers,
    result_sender::ResultSender,
    runtime::{Runtime, Tokio, engine::AsyncRuntime},
    space::Space,
    types::{Proposal, Raft, Types},
};

/// Encoded bytes of entries that are proposed and not yet answered; who proposes more waits.
pub const PROPOSALS_BYTES_MAX: usize = 64 << 20;
/// What the smallest entry counts for among them, so that their number is bounded too.
const PROPOSAL_BYTES_MIN: usize = 1024;
/// Payload bytes of log, applied since the last snapshot, for which a shutdown writes another one.
const LAST_SNAPSHOT_BYTES_MIN: u64 = 1 << 20;
/// How long a shutdown waits for it.
const LAST_SNAPSHOT_TIME_MAX: Duration = Duration::from_secs(10);
/// How often a snapshot is asked for again while another one is being written.
const SNAPSHOT_RETRY: Duration = Duration::from_millis(100);

/// A server's part of the replicated log. A clone is another handle to the same log; the log ends when the last one is
/// dropped.
pub struct Replication<R: Runtime = Tokio> {
    inner: Arc<ReplicationState<R>>,
}

impl<R: Runtime> Clone for Replication<R> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct ReplicationState<R: Runtime> {
    raft: Raft<R>,
    peers: Peers<R>,
    own: Peer,
    departed: Departed,
    permits: Arc<Semaphore>,
    counters: Arc<Counters>,
    demand: SnapshotDemand,
    space: Arc<Space>,
    tail: Arc<Tail>,
    promised: RaftPromises,
    /// The newest version of entries that was proposed here.
    proposed: AtomicU8,
    /// Held by whoever changes who the servers are.
    changes: Arc<tokio::sync::Mutex<()>>,
    ending: Mutex<Option<Shutdown>>,
}

impl<R: Runtime> Drop for ReplicationState<R> {
    /// A writer that waits for space would hold the directory forever, and so would connections of other servers.
    fn drop(&mut self) {
        self.space.set_waits(false);
        self.peers.close();
    }
}

/// What is still to be waited for once consensus has ended.
struct Shutdown {
    writer: WriterEnded,
    released: Released,
}

/// An entry that has its rank among the proposed ones.
#[must_use = "whether the entry was applied is known only to who waits for it"]
pub struct Pending<R: Runtime = Tokio> {
    answer: oneshot::Receiver<ClientWriteResult<Types<R>>>,
    raft: Raft<R>,
}

impl<R: Runtime> Pending<R> {
    /// Waits until the entry is durable, applied, and shown to the observer.
    ///
    /// # Errors
    /// [`ProposeError::NotWritten`] when it certainly never will be, [`ProposeError::Unknown`] when nobody knows.
    pub async fn applied(self) -> Result<AppliedEntry, ProposeError> {
        match self.answer.await {
            Ok(Ok(response)) => Ok(response.data.unwrap_or_default()),
            Ok(Err(error)) => Err(failure(error)),
            // The engine let go of the entry without a word: it may have written it before.
            Err(_) => Err(stopped(&self.raft).into()),
        }
    }
}

impl Replication {
    /// Opens the log on the disk that is there, see [`Self::open_on`].
    ///
    /// # Errors
    /// When the directory is in use, belongs to another server, is damaged, or cannot be read or written.
    pub async fn open(config: Config, observer: Arc<dyn Observer>) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(RealDisk), SEGMENT_BYTES, config, observer).await
    }
}

impl<R: Runtime> Replication<R> {
    /// Opens the log on `disk`, in segments of about `segment_bytes`, and becomes its leader if this server is alone; the
    /// first time, it founds a cluster of one. When this returns, everything that was ever acknowledged is applied, and
    /// the observer has seen it.
    ///
    /// # Errors
    /// When the directory is in use, belongs to another server, is damaged, or cannot be read or written.
    pub async fn open_on(
        disk: Arc<dyn Disk>,
        segment_bytes: u64,
        config: Config,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, OpenError> {
        let peers = Peers::alone(config.server_id);
        let cluster = ClusterConfig { peers, own: Peer::default(), start: Start::Found };
        open::open(config, observer, disk, segment_bytes, cluster).await
    }

    /// Opens the log of a server that is one of several, or may become one. Where it is the only one that votes it leads
    /// when this returns, as with [`Self::open_on`]; otherwise the observer is informed once it does, and the state that it has
    /// seen is that of which this server knew that it was committed.
    ///
    /// # Errors
    /// As [`Self::open_on`].
    pub async fn open_in(
        disk: Arc<dyn Disk>,
        segment_bytes: u64,
        config: Config,
        observer: Arc<dyn Observer>,
        cluster: ClusterConfig<R>,
    ) -> Result<Self, OpenError> {
        open::open(config, observer, disk, segment_bytes, cluster).await
    }

    /// The consensus engine.
    pub(crate) fn raft(&self) -> &Raft<R> {
        &self.inner.raft
    }

    /// The other servers.
    pub fn peers(&self) -> &Peers<R> {
        &self.inner.peers
    }

    /// The servers that were removed.
    pub(crate) fn departed(&self) -> &Departed {
        &self.inner.departed
    }

    /// Held by whoever changes who the servers are.
    pub(crate) fn changes(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.inner.changes)
    }

    /// How the others know this server.
    pub fn own(&self) -> &Peer {
        &self.inner.own
    }

    pub(crate) fn new(
        raft: Raft<R>,
        (peers, own): (Peers<R>, Peer),
        departed: Departed,
        counters: Arc<Counters>,
        demand: SnapshotDemand,
        space: Arc<Space>,
        (tail, promised): (Arc<Tail>, RaftPromises),
        (writer, released): (WriterEnded, Released),
    ) -> Self {
        let permits = Arc::new(Semaphore::new(PROPOSALS_BYTES_MAX));
        let ending = Mutex::new(Some(Shutdown { writer, released }));
        let (proposed, changes) = (AtomicU8::new(0), Arc::default());
        let inner = ReplicationState {
            raft,
            peers,
            own,
            departed,
            permits,
            counters,
            demand,
            space,
            tail,
            promised,
            proposed,
            changes,
            ending,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Proposes an entry and waits until it is durable, applied, and shown to the observer.
    ///
    /// # Errors
    /// See [`ProposeError`]; it says which failures leave open whether the entry will be applied.
    pub async fn propose(&self, entry: impl Into<EncodedEntry>) -> Result<AppliedEntry, ProposeError> {
        self.submit(self.term(), entry).await?.applied().await
    }

    /// Proposes an entry of this server's leadership of `term` and returns as soon as it has its place: entries submitted one
    /// after the other are applied in that order. It is not written in another term, not even if this server leads again:
    /// it was made from the state of its own, and others have written since. Waits for space when more than
    /// [`PROPOSALS_BYTES_MAX`] are in flight.
    ///
    /// # Errors
    /// When the entry is too large, the disk is full, or the log has stopped.
    pub async fn submit(
        &self,
        term: u64,
        entry: impl Into<EncodedEntry>,
    ) -> Result<Pending<R>, ProposeError> {
        let ReplicationState { raft, permits, space, proposed, .. } = &*self.inner;
        let proposal = Proposal::new(entry.into());
        let bytes = proposal.bytes().len();
        if bytes > ENTRY_BYTES_MAX {
            return Err(NotWritten::TooLarge { bytes, max: ENTRY_BYTES_MAX }.into());
        }
        let version = proposal.bytes().first().copied().unwrap_or_default();
        self.check_version(version)?;
        // From now on nobody is taken in who does not know it.
        proposed.fetch_max(version, Ordering::AcqRel);
        space.admit(bytes as u64, self.bytes_in_flight()).map_err(NotWritten::from)?;
        let permits_needed = bytes.max(PROPOSAL_BYTES_MIN) as u32;
        let permits =
            Arc::clone(permits).acquire_many_owned(permits_needed).await.map_err(|_| stopped(raft))?;
        let (to, answer) = ResultSender::new(permits);
        let write = raft.write(proposal).responder(to).with_leader(term);
        write.await.map_err(|_| stopped(raft))?;
        Ok(Pending { answer, raft: raft.clone() })
    }

    /// The newest term that this server knows.
    pub fn term(&self) -> u64 {
        self.inner.raft.server_metrics().borrow_watched().vote.leader_id.term
    }

    /// The vote of this server that is durable: its term, whom it is for, and whether a majority has granted it. None before
    /// the first.
    pub fn vote(&self) -> Option<(u64, u64, bool)> {
        let vote = self.inner.promised.vote()?;
        Some((vote.leader_id.term, vote.leader_id.voted_for, vote.committed))
    }

    /// The position in the log of the last record that this server knows to be committed.
    pub fn committed(&self) -> Option<u64> {
        self.inner.promised.committed().map(|id| id.index())
    }

    /// Whether this server believes that it leads. Only [`Self::linearize`] confirms it.
    pub fn is_leader(&self) -> bool {
        self.inner.raft.server_metrics().borrow_watched().state.is_leader()
    }

    /// The position in the log, not the model's index, of the last record that was applied.
    pub fn last_applied_log(&self) -> Option<u64> {
        self.inner.raft.data_metrics().borrow_watched().last_applied.map(|id| id.index())
    }

    /// The newest version of entries that all servers of the cluster know, as they introduced themselves last, whether they
    /// are there or not; and, for users, who knows no newer ones.
    pub fn entries_known(&self) -> (u8, String) {
        let (peers, members) = (&self.inner.peers, self.members());
        let all = members.all.iter().map(|member| peers.knows(member.id));
        let least = all.chain([peers.knows(peers.server())]).min_by_key(|knows| knows.entries);
        least.map(|knows| (knows.entries, knows.to_string())).unwrap_or_default()
    }

    /// Whether all servers can apply entries of a version: one that cannot would end with the first. That the log has some of
    /// it already they all know, or are not let in.
    ///
    /// # Errors
    /// Who does not know it.
    pub fn check_version(&self, entry: u8) -> Result<(), NotWritten> {
        if entry <= self.inner.peers.cluster().entries() {
            return Ok(());
        }
        let (known, held_by) = self.entries_known();
        if entry > known { Err(NotWritten::TooNew { entry, held_by }) } else { Ok(()) }
    }

    /// Whether a server may be taken in: it knows what the log has, and what is on its way into it.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check_entry_version(&self, server: u64) -> Result<(), String> {
        let ReplicationState { peers, proposed, .. } = &*self.inner;
        let written = peers.cluster().entries().max(proposed.load(Ordering::Acquire));
        let knows = peers.knows(server);
        // One that has not introduced itself yet does so before it is sent anything.
        if knows.version.is_none() || knows.entries >= written {
            return Ok(());
        }
        Err(format!("{knows}, and the cluster writes version {written}: start it with the newer Berth"))
    }

    /// Of entries that are proposed and not yet answered.
    fn bytes_in_flight(&self) -> u64 {
        (PROPOSALS_BYTES_MAX - self.inner.permits.available_permits()) as u64
    }

    /// Whether an entry proposed now would be written, as far as this server knows. Asks the disk.
    ///
    /// # Errors
    /// When this server does not lead, or its disk is full.
    pub fn writable(&self) -> Result<(), NotWritten> {
        if !self.is_leader() {
            let leader = self.inner.raft.server_metrics().borrow_watched().current_leader;
            return Err(NotWritten::NotLeader { leader });
        }
        Ok(self.check_disk_space()?)
    }

    /// Whether this server's disk has space for what is proposed, whoever leads.
    ///
    /// # Errors
    /// When it is full: proposals are refused then, if this server leads.
    pub fn check_disk_space(&self) -> Result<(), DiskFull> {
        self.inner.space.check(self.bytes_in_flight())
    }

    /// What has happened since the log was opened, and the space that its disk has now.
    pub fn metrics(&self) -> Metrics {
        let disk = self.inner.space.free();
        let (free, total) = disk.map_or((0, 0), |disk| (disk.free, disk.total));
        Metrics {
            disk_free_bytes: free,
            disk_total_bytes: total,
            snapshot_bytes: self.inner.space.snapshot_bytes(),
            since_snapshot_bytes: self.inner.demand.log_bytes(),
            ..self.inner.counters.read(R::now())
        }
    }

    /// To be called every few seconds: gives back the memory of entries that were on disk the last time already. Who still wants
    /// one, as a server that is behind, has it read from there.
    pub fn ease(&self) {
        self.inner.tail.ease();
    }

    /// How long a sync of the log takes, when its disk is too slow to lead on: several in a row took long, or one goes on
    /// and on.
    pub fn slow_sync(&self) -> Option<Duration> {
        self.inner.counters.slow_sync(R::now())
    }

    /// How long the last syncs of the log took in the mean; none before the first.
    pub fn mean_sync(&self) -> Option<Duration> {
        self.inner.counters.mean_sync()
    }

    /// On a leader: a position in the log such that whoever has applied it sees everything that was acknowledged before
    /// this call, by any server. Rests on the leader's lease, or on a round of heartbeats where that has run out.
    ///
    /// # Errors
    /// When this server does not lead, or cannot reach a majority.
    pub async fn read_position(&self) -> Result<u64, ReadError> {
        let raft = &self.inner.raft;
        let read = match raft.get_read_linearizer(ReadPolicy::LeaseRead).await {
            Ok(read) => Ok(read),
            Err(_) => raft.get_read_linearizer(ReadPolicy::ReadIndex).await,
        };
        read.map(|read| read.read_log_id().log_id().index()).map_err(|error| unreadable(raft, error))
    }

    /// Waits until this server has applied a position in the log.
    ///
    /// # Errors
    /// When that takes longer than `patience`, or the log has stopped.
    pub async fn wait_applied(&self, position: u64, patience: Duration) -> Result<(), ReadError> {
        let raft = &self.inner.raft;
        if self.last_applied_log() >= Some(position) {
            return Ok(());
        }
        match raft.wait(Some(patience)).applied_index_at_least(Some(position), "read").await {
            Ok(_) => Ok(()),
            Err(WaitError::Timeout(..)) => Err(ReadError::NoQuorum(format!(
                "this server is behind: it has not applied record {position} of the log within {} ms",
                patience.as_millis()
            ))),
            Err(WaitError::ShuttingDown) => Err(ReadError::Stopped(stop_reason(raft))),
        }
    }

    /// Waits until everything acknowledged before this call, by any server, is applied here. A read of the state that
    /// the observer has seen by then is linearizable.
    ///
    /// # Errors
    /// When this server does not lead, or cannot reach a majority.
    pub async fn linearize(&self) -> Result<(), ReadError> {
        match self.inner.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) => Ok(()),
            Err(error) => Err(unreadable(&self.inner.raft, error)),
        }
    }

    /// Writes a snapshot of at least everything applied before this call, unless there is one already. Other entries
    /// are proposed and applied meanwhile.
    ///
    /// # Errors
    /// When the log has stopped, or the snapshot cannot be written.
    pub async fn snapshot_now(&self) -> Result<(), SnapshotError> {
        let raft = &self.inner.raft;
        let target = self.last_applied_log().max(self.inner.demand.applied());
        let stopped = || SnapshotError::Stopped(stop_reason(raft));
        self.inner.demand.take_failure();
        // It stays raised until a snapshot is begun, which then covers all that is wanted.
        self.inner.demand.raise();
        let is_there = |m: &RaftMetrics<Types<R>>| m.snapshot.map(|id| id.index()) >= target;
        while !is_there(&raft.metrics().borrow_watched()) {
            raft.trigger().snapshot().await.map_err(|_| stopped())?;
            match raft.wait(Some(SNAPSHOT_RETRY)).metrics(is_there, "snapshot").await {
                Ok(_) | Err(WaitError::Timeout(..)) => {}
                Err(WaitError::ShuttingDown) => return Err(stopped()),
            }
            if let Some(reason) = self.inner.demand.take_failure() {
                return Err(SnapshotError::Failed(reason));
            }
        }
        Ok(())
    }

    /// Writes a snapshot if it is cheaper than what the next start would have to apply without it.
    async fn shorten_next_start(&self) {
        if self.inner.demand.log_bytes() < LAST_SNAPSHOT_BYTES_MIN.max(self.inner.space.snapshot_bytes()) {
            return;
        }
        match R::Async::timeout(LAST_SNAPSHOT_TIME_MAX, self.snapshot_now()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the next start applies the log instead"),
            Err(_) => {
                tracing::warn!("the last snapshot takes too long, the next start applies the log instead")
            }
        }
    }

    /// Ends the log in order: nothing is proposed any more, and the directory can be opened again when this returns.
    ///
    /// # Errors
    /// When a task of the log has failed; what was acknowledged is safe all the same.
    pub async fn shutdown(self) -> Result<(), ShutdownError> {
        self.inner.space.set_waits(false);
        self.shorten_next_start().await;
        self.inner.peers.close();
        self.inner.raft.shutdown().await.map_err(|error| ShutdownError(error.to_string()))?;
        let ending = self.inner.ending.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Shutdown { writer, released }) = ending else { return Ok(()) };
        let ended = writer.await;
        // A snapshot that is being written holds the directory until it is done.
        released.wait().await;
        match ended {
            Ok(Ok(())) => Ok(()),
            _ => Err(ShutdownError("the log's writer has panicked".to_owned())),
        }
    }
}

/// What the engine's error says of the entry. Only those that it gives before it appends are certain; an entry that is
/// discarded here may lie in the log of the server that leads now.
fn failure<R: Runtime>(error: ClientWriteError<Types<R>>) -> ProposeError {
    match error {
        ClientWriteError::ForwardToLeader(to) => NotWritten::NotLeader { leader: to.leader_id }.into(),
        ClientWriteError::LogEntryDiscarded(_) => UnknownOutcome::LeadershipLost.into(),
        error @ (ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_)) => {
            UnknownOutcome::Stopped(error.to_string()).into()
        }
    }
}

/// The text for users about reads that a majority did not confirm.
const NO_MAJORITY: &str = "the leader does not hear a majority of the servers: see to it that they run and reach each other \
                           (`berth server members`)";

fn unreadable<R: Runtime>(
    raft: &Raft<R>,
    error: RaftError<Types<R>, LinearizableReadError<Types<R>>>,
) -> ReadError {
    match error {
        RaftError::APIError(LinearizableReadError::ForwardToLeader(to)) => {
            ReadError::NotLeader { leader: to.leader_id }
        }
        // What the engine says names its own insides.
        RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)) => {
            ReadError::NoQuorum(NO_MAJORITY.to_owned())
        }
        RaftError::Fatal(_) => ReadError::Stopped(stop_reason(raft)),
    }
}

fn stopped<R: Runtime>(raft: &Raft<R>) -> UnknownOutcome {
    UnknownOutcome::Stopped(stop_reason(raft))
}

fn stop_reason<R: Runtime>(raft: &Raft<R>) -> String {
    match &raft.metrics().borrow_watched().running_state {
        Ok(()) => "it was shut down".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use openraft::errors::ForwardToLeader;

    use super::*;

    #[test]
    fn only_what_was_never_appended_is_certain_not_to_be_applied() {
        let forward = || ForwardToLeader::<Types<Tokio>>::new(3, crate::types::Peer::default());
        let refused = failure(ClientWriteError::ForwardToLeader(forward()));
        assert_eq!(refused, NotWritten::NotLeader { leader: Some(3) }.into());
        assert_eq!(
            failure(ClientWriteError::LogEntryDiscarded(forward())),
            UnknownOutcome::LeadershipLost.into()
        );
    }
}

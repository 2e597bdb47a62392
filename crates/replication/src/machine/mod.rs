//! The state machine: applies what is committed to the store, in order, and informs the observer.

mod builder;
mod schedule;

use std::{io, marker::PhantomData, pin::pin, sync::Arc};

use berth_model::{event::AppliedEntry, store::Store};
use futures_util::{Stream, StreamExt};
use openraft::{
    EntryPayload,
    storage::{ApplyResponder, EntryResponder, RaftStateMachine},
};

pub(crate) use schedule::SnapshotDemand;

use self::{builder::Builder, schedule::Schedule};
use crate::{
    ClusterMembers,
    departed::Departed,
    log::LogStore,
    observer::{Alarm, Observer},
    runtime::Runtime,
    snapshot::{self, LoadedState, SnapshotCoverage, SnapshotImage, Snapshots},
    types::{LogEntry, LogId, Proposal, Snapshot, SnapshotMeta, StoredMembership, Types, term_of},
};

/// Entries applied between two calls of the observer.
const APPLY_BATCH_MAX: usize = 512;

/// The store and how far it has come.
pub(crate) struct Machine {
    store: Store,
    last: Option<LogId>,
    membership: StoredMembership,
    /// Who was a member before.
    departed: Departed,
    schedule: Schedule,
    demand: SnapshotDemand,
    snapshots: Arc<Snapshots>,
    observer: Arc<dyn Observer>,
    reported_term: u64,
    alarm: Arc<Alarm>,
    /// The newest version of entries that is applied.
    known: u8,
}

/// Whoever proposed an entry here, and is to be answered.
type ApplyWaiter<R> = Option<ApplyResponder<Types<R>>>;

impl Machine {
    /// Begins with a snapshot, or with an empty store. Begins a snapshot every `snapshot_entries` records, or later if
    /// the state is large, or on demand. Applies entries of versions up to `known`.
    pub fn new(
        loaded: LoadedState,
        snapshots: Arc<Snapshots>,
        (snapshot_entries, known): (u64, u8),
        demand: SnapshotDemand,
        observer: Arc<dyn Observer>,
        alarm: Arc<Alarm>,
    ) -> Self {
        let meta = loaded.image.map(|image| image.meta);
        let last = meta.as_ref().map(|meta| meta.last);
        let (membership, left) = meta.map(|meta| (meta.membership, meta.departed)).unwrap_or_default();
        let departed = Departed::default();
        departed.on_applied(membership.membership());
        departed.on_restored(&left);
        Self {
            store: loaded.store,
            last,
            membership,
            departed,
            schedule: Schedule::new(snapshot_entries, demand.clone()),
            demand,
            snapshots,
            observer,
            reported_term: 0,
            alarm,
            known,
        }
    }

    /// Applies what the log has beyond the snapshot and is known to be committed, and shows the observer where that
    /// ends. Nobody looks at the states between, so that nothing of them is copied. Returns the number of entries.
    pub fn replay<R: Runtime>(&mut self, log: &LogStore<R>) -> io::Result<u64> {
        let from = self.last.map_or(0, |last| last.index() + 1);
        let mut entries = 0;
        log.replay(from, |entry| {
            entries += u64::from(self.apply_entry(entry)?.is_some());
            Ok(())
        })?;
        self.schedule.on_replayed();
        self.report_term();
        self.observer.on_restored(&self.store);
        Ok(entries)
    }

    /// Applies a batch, shows it to the observer, and only then answers.
    fn apply_batch<R: Runtime>(
        &mut self,
        batch: Vec<io::Result<EntryResponder<Types<R>>>>,
    ) -> io::Result<()> {
        let mut applied = Vec::with_capacity(batch.len());
        let mut waiting: Vec<ApplyWaiter<R>> = Vec::with_capacity(batch.len());
        for item in batch {
            let (entry, responder) = item?;
            match self.apply_entry(entry)? {
                Some(entry) => {
                    applied.push(entry);
                    waiting.push(responder);
                }
                None => answer(responder, None),
            }
        }
        if !applied.is_empty() {
            self.report_term();
            self.observer.on_applied(&self.store, &applied);
        }
        for (applied, responder) in applied.into_iter().zip(waiting) {
            answer(responder, Some(applied));
        }
        Ok(())
    }

    fn report_term(&mut self) {
        let term = self.last.as_ref().map_or(0, term_of);
        if std::mem::replace(&mut self.reported_term, term) != term {
            self.observer.on_term(term);
        }
    }

    /// Applies one entry; what became of it, unless it is the consensus engine's own.
    fn apply_entry(&mut self, entry: LogEntry) -> io::Result<Option<AppliedEntry>> {
        self.last = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => Ok(None),
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(self.last, membership);
                self.departed.on_applied(self.membership.membership());
                Ok(None)
            }
            EntryPayload::Normal(proposal) => self.apply_proposal(&entry.log_id, &proposal).map(Some),
        }
    }

    fn apply_proposal(&mut self, log_id: &LogId, proposal: &Proposal) -> io::Result<AppliedEntry> {
        let entry = proposal.entry(self.known).map_err(|error| {
            let reason = format!("apply log record {}: {error}", log_id.index());
            self.alarm.raise(&reason);
            io::Error::new(io::ErrorKind::InvalidData, reason)
        })?;
        self.schedule.on_applied(log_id.index(), proposal.bytes().len());
        Ok(self.store.apply(entry))
    }

    /// Whether a snapshot of about the last one's size can be written; whoever waits for one learns it if not.
    fn has_room_for_snapshot(&self) -> bool {
        self.snapshots.has_room().inspect_err(|reason| self.demand.fail(&reason.to_string())).is_ok()
    }

    fn builder<R>(&mut self) -> Builder<R> {
        self.schedule.on_begun();
        Builder {
            store: self.store.clone(),
            meta: self.meta(),
            snapshots: Arc::clone(&self.snapshots),
            demand: self.demand.clone(),
            alarm: Arc::clone(&self.alarm),
            runs_on: PhantomData,
        }
    }

    /// Who the servers are, as of what was applied.
    pub fn members(&self) -> ClusterMembers {
        let at = self.membership.log_id().map_or(0, |id| id.index());
        ClusterMembers::of(self.membership.membership(), at, false)
    }

    /// Who was one of the servers, and is none any more.
    pub fn departed(&self) -> &Departed {
        &self.departed
    }

    /// The state.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Writes a snapshot of all that was applied. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// When there is nothing to keep, or the snapshot cannot be written.
    pub fn write_snapshot(&self) -> io::Result<()> {
        let meta = self.meta().ok_or_else(|| io::Error::other("nothing was applied yet"))?;
        self.snapshots.write(meta, &self.store).map(drop)
    }

    fn meta(&self) -> Option<SnapshotCoverage> {
        let (membership, departed) = (self.membership.clone(), self.departed.all());
        Some(SnapshotCoverage { last: self.last?, membership, departed })
    }
}

fn answer<R: Runtime>(waiting: ApplyWaiter<R>, applied: Option<AppliedEntry>) {
    if let Some(responder) = waiting {
        responder.send(applied);
    }
}

impl<R: Runtime> RaftStateMachine<Types<R>> for Machine {
    type SnapshotData = SnapshotImage;
    type SnapshotBuilder = Builder<R>;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.last, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types<R>>>> + Unpin + Send,
    {
        let mut batches = pin!(entries.ready_chunks(APPLY_BATCH_MAX));
        let alarm = Arc::clone(&self.alarm);
        while let Some(batch) = batches.next().await {
            alarm.guard("apply log records", || self.apply_batch(batch))??;
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder<R>> {
        // A snapshot does not hold what of another one is on its way: the log has that whole, until it is in.
        if self.store.is_restoring() {
            self.demand.fail("another snapshot is being restored");
            return None;
        }
        let due = force || self.schedule.is_due(self.snapshots.newest_bytes());
        if !due || !self.has_room_for_snapshot() {
            return None;
        }
        Some(self.builder())
    }

    async fn get_snapshot_builder(&mut self) -> Builder<R> {
        self.builder()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, image: SnapshotImage) -> io::Result<()> {
        let snapshots = Arc::clone(&self.snapshots);
        let read = move || {
            let (meta, store) = snapshot::read(&*snapshots.disk, &image.path).map_err(io::Error::other)?;
            snapshots.adopt(image).map(|_| (meta, store))
        };
        let (found, store) = R::blocking(read).await??;
        let (version, known) = (store.version(), self.known);
        if version > known {
            let reason = format!(
                "install snapshot: it came of entries of version {version}, this server knows up to {known}: start the newer version again"
            );
            self.alarm.raise(&reason);
            return Err(io::Error::other(reason));
        }
        if Some(found.last) != meta.last_log_id {
            return Err(io::Error::other("install snapshot: it is not the one that was announced"));
        }
        (self.store, self.last, self.membership) = (store, Some(found.last), found.membership);
        self.departed.on_applied(self.membership.membership());
        self.departed.on_restored(&found.departed);
        let alarm = self.alarm.clone();
        alarm.guard("install snapshot", || {
            self.report_term();
            self.observer.on_restored(&self.store);
        })
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.snapshots.newest().map(builder::into_engine))
    }
}

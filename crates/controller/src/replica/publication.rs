//! What readers see, and in which order: entries as they are applied here, observed changes as the leader reports them,
//! merged by their indexes. Entries wait until the leader has sent all observed changes before them, so that nothing is
//! published behind what it precedes; when the leader falls silent they wait no longer.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use berth_model::{
    AllocId, Index, NodeId,
    event::{AppliedEntry, StateChange},
    observed::{NodeReported, Observation, Observed, ObservedAlloc},
    store::{AllocRow, AllocSlot, NodeSlot, Store},
};

use crate::{
    action::Action,
    messages::{NodeRecovery, NodeReport, ObservationBatch, RecordedNode, ReportVersion, ReportedAlloc},
};

/// How long entries wait for a leader that says nothing of what it has yet to report.
const HELD_MAX: Duration = Duration::from_secs(5);
/// How long they wait in all, however much it says. What comes after them could not be published at its place any more: all would
/// have to be sent again, which takes a leader with much to do longer still.
const HELD_IN_ALL_MAX: Duration = Duration::from_secs(30);

/// What was observed on a node, as far as it is recorded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReportRecord {
    pub version: ReportVersion,
    /// The sum of the hashes of what was observed of the node's allocations that have not ended.
    pub digest: u128,
}

/// The published state, and what waits to be.
#[derive(Debug, Default)]
pub(crate) struct Publication {
    /// After the last published entry.
    store: Store,
    observed: Observed,
    records: BTreeMap<NodeId, ReportRecord>,
    entries: VecDeque<UnpublishedEntry>,
    batches: VecDeque<Arc<ObservationBatch>>,
    /// All observed changes up to here are in; none while nobody reports them.
    complete_up_to: Option<Index>,
    held: Option<HeldEntries>,
    /// Where the leadership began whose replica knows nothing of what runs.
    floor: Option<Index>,
    /// From where on readers may see something; none before a leader has reported what it knows.
    readable_from: Option<Index>,
    /// What is published next does not follow on what was published before.
    is_anew: bool,
    /// The last index that was published, and how far the leader knew the nodes.
    published: (Index, Arc<NodeRecovery>),
    /// The last entry in the state that was published.
    readable: Index,
    recovery: Arc<NodeRecovery>,
    last: Index,
    /// The last of the entries that were applied together with the one that was published last: the store is ahead as far as that.
    group: Index,
    logged: Vec<(Index, Vec<StateChange>)>,
    seen: Vec<(Index, Vec<(AllocSlot, AllocId)>)>,
}

/// Since when entries wait for the leader.
#[derive(Debug, Clone, Copy)]
struct HeldEntries {
    since: Duration,
    /// When it said something of what they wait for last, or they began to wait.
    heard_at: Duration,
}

/// An applied entry that is not published yet.
#[derive(Debug)]
struct UnpublishedEntry {
    index: Index,
    changes: Vec<StateChange>,
    /// The last of those that were applied with it.
    group: Index,
    /// The state after these, with the first of them.
    store: Option<Store>,
}

/// An allocation whose end is published.
#[derive(Debug)]
pub(crate) struct EndedAlloc {
    pub id: AllocId,
    pub node: NodeSlot,
    /// None once its node is garbage-collected.
    pub node_id: Option<NodeId>,
    /// What was recorded of it last.
    pub seen: Option<Arc<ObservedAlloc>>,
}

/// What is published next.
#[derive(Debug)]
pub(crate) enum NextPublication {
    /// An entry's changes, and what has ended of which the state knows nothing any more: an entry that was applied together with
    /// this one has forgotten it, and its slot may be another's.
    Entry(Vec<StateChange>, Vec<EndedAlloc>),
    /// Observed changes.
    Batch(Arc<ObservationBatch>),
}

impl Publication {
    /// Begins with a state of which nothing was published, and of whose tasks nothing is known.
    pub fn recover(&mut self, store: Store) {
        let (published, last) = (std::mem::take(&mut self.published), self.last.max(store.index()));
        let floor = Some(Index::default());
        *self = Self { floor, is_anew: true, store, published, last, ..Self::default() };
    }

    /// The state after the last published entry.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What agents observe.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// What is recorded of a node.
    pub fn record_of(&self, node: NodeId) -> Option<&ReportRecord> {
        self.records.get(&node)
    }

    /// What is recorded of nodes, after one of them.
    pub fn records_after(&self, node: Option<NodeId>) -> impl Iterator<Item = RecordedNode> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = node.map_or(Unbounded, Excluded);
        let of = |(node, record): (&NodeId, &ReportRecord)| RecordedNode {
            node: *node,
            version: record.version,
            digest: record.digest,
        };
        self.records.range((from, Unbounded)).map(of)
    }

    /// What is recorded of a node's allocations that have not ended, as far as it was published after an index; each with
    /// where, in that order.
    pub fn recorded_since(&self, node: NodeId, since: Index) -> Vec<(Index, ReportedAlloc)> {
        let recorded = self.recorded_of(node).filter(|(_, observation)| observation.index > since);
        let seen = |(slot, observation): (_, &Observation)| {
            (observation.index, ReportedAlloc::new(slot, observation.alloc.clone()))
        };
        let mut recorded: Vec<_> = recorded.map(seen).collect();
        recorded.sort_by_key(|(index, _)| *index);
        recorded
    }

    /// What is recorded of a node's allocations that have not ended.
    pub fn recorded_of(&self, node: NodeId) -> impl Iterator<Item = (AllocSlot, &Observation)> {
        let live = self.store.node(node).into_iter().flat_map(|(_, row)| self.store.nodes().live(row));
        live.filter_map(|slot| Some((slot, self.observed.get(slot, self.store.allocs().row(slot)?.id)?)))
    }

    /// Entries have been applied.
    pub fn on_applied(&mut self, store: &Store, applied: Vec<AppliedEntry>) {
        let Some(group) = applied.last().map(|last| last.index) else { return };
        let mut store = Some(store.clone());
        for AppliedEntry { index, events, .. } in applied {
            self.entries.push_back(UnpublishedEntry { index, changes: events, group, store: store.take() });
        }
    }

    /// Another state replaces this one: what waited speaks of slots that are others now. Its indexes are published
    /// all the same. What the leader was sent after that stays: it reports it once.
    pub fn on_restored(&mut self, store: &Store) {
        self.entries.iter_mut().for_each(|entry| entry.changes.clear());
        self.logged.iter_mut().for_each(|(_, changes)| changes.clear());
        for batch in self.batches.iter_mut().filter(|batch| batch.index <= store.restored_at()) {
            *batch = Arc::new(ObservationBatch::new(batch.index, batch.after, Vec::new()));
        }
        let seen = std::mem::take(&mut self.seen).into_iter();
        self.logged.extend(seen.map(|(index, _)| (index, Vec::new())));
        self.records.clear();
        let began = self.observed.index().max(store.index());
        self.observed = Observed::default();
        self.observed.begin(began);
    }

    /// This replica attaches to a leader: what is applied from now on waits for what the leader sends.
    pub fn hold(&mut self) {
        self.complete_up_to = Some(self.last);
        self.held = None;
    }

    /// Nobody reports what was observed: nothing waits for it.
    pub fn release(&mut self) {
        self.complete_up_to = None;
        self.held = None;
    }

    /// A leadership began at this index, after that entry.
    pub fn on_began(&mut self, index: Index, after: Index) {
        if self.floor.is_some() {
            self.floor = Some(index);
        }
        if index > self.newest() {
            self.batches.push_back(Arc::new(ObservationBatch::new(index, after, Vec::new())));
        } else if index <= self.last && self.floor.take().is_some() {
            self.observed.begin(index);
        }
    }

    /// The last index that was published.
    pub fn last(&self) -> Index {
        self.last
    }

    /// The last entry whose effects readers see; none before this replica has published anything.
    pub fn readable(&self) -> Index {
        self.readable
    }

    /// The last index that was published, or is about to be.
    fn newest(&self) -> Index {
        self.batches.back().map_or(self.last, |last| last.index.max(self.last))
    }

    /// Observed changes have been given their place; false when that has been passed already.
    pub fn on_batch(&mut self, batch: Arc<ObservationBatch>, listening: Duration) -> bool {
        if batch.index <= self.newest() {
            return false;
        }
        self.batches.push_back(batch);
        self.held.iter_mut().for_each(|held| held.heard_at = listening);
        true
    }

    /// All observed changes up to here are in.
    pub fn on_complete_up_to(&mut self, index: Index, recovery: NodeRecovery) {
        self.complete_up_to = Some(index);
        if recovery != *self.recovery {
            self.recovery = Arc::new(recovery);
        }
        if self.readable_from.is_none() {
            self.readable_from = Some(self.newest());
        }
    }

    /// What is published next, in the order of indexes. `applied` is the last entry that was applied here.
    pub fn next(&mut self, applied: Index, listening: Duration) -> Option<NextPublication> {
        let first = self.entries.front().map(|entry| entry.index);
        if let Some(batch) =
            self.batches.front().filter(|batch| first.is_none_or(|first| batch.index < first))
        {
            if batch.after > applied {
                return None;
            }
            let batch = self.batches.pop_front()?;
            self.last = self.last.max(batch.index);
            return Some(NextPublication::Batch(batch));
        }
        let complete_up_to = self.complete_up_to;
        let entry = self
            .entries
            .pop_front_if(|entry| complete_up_to.is_none_or(|complete_up_to| entry.group <= complete_up_to));
        let Some(entry) = entry else {
            self.wait(first.is_some(), listening);
            return None;
        };
        self.held = None;
        let mut gone = Vec::new();
        if let Some(store) = entry.store {
            gone = self.end_forgotten(&entry.changes, entry.group);
            self.store = store;
        }
        self.group = entry.group;
        self.last = self.last.max(entry.index);
        // Published with its index; what it leads to is whoever asks's.
        self.logged.push((entry.index, Vec::new()));
        Some(NextPublication::Entry(entry.changes, gone))
    }

    /// Ends what goes on by the state so far and is garbage-collected by what was applied together: these changes first, and those of the
    /// entries of the group that wait.
    fn end_forgotten(&mut self, first: &[StateChange], group: Index) -> Vec<EndedAlloc> {
        let rest = self.entries.iter().take_while(|entry| entry.group == group);
        let changes = first.iter().chain(rest.flat_map(|entry| &entry.changes));
        let forgotten = changes.filter_map(|change| match change {
            StateChange::AllocCollected(slot, id, _) => {
                let row = self.store.allocs().row(*slot)?;
                (row.id == *id && !row.is_terminal()).then_some((*slot, *row))
            }
            _ => None,
        });
        let forgotten: Vec<_> = forgotten.collect();
        forgotten.into_iter().map(|(slot, row)| self.end(slot, &row)).collect()
    }

    /// Entries wait for the leader, for a while.
    fn wait(&mut self, waits: bool, listening: Duration) {
        if !waits {
            self.held = None;
            return;
        }
        let held = self.held.get_or_insert(HeldEntries { since: listening, heard_at: listening });
        let for_longer = |since: Duration, max| listening.saturating_sub(since) > max;
        if for_longer(held.heard_at, HELD_MAX) || for_longer(held.since, HELD_IN_ALL_MAX) {
            self.release();
        }
    }

    /// Keeps the changes of the entry that [`Self::next`] gave last.
    pub fn published(&mut self, changes: Vec<StateChange>) {
        if let Some((_, last)) = self.logged.last_mut() {
            *last = changes;
        }
    }

    /// Records observed changes.
    pub fn record(&mut self, batch: &ObservationBatch) {
        if self.floor.is_some_and(|floor| floor == batch.index) {
            self.floor = None;
            self.observed.begin(batch.index);
        }
        let mut seen = Vec::with_capacity(batch.reports.iter().map(|report| report.seen.len()).sum());
        let ending = self.ending();
        batch.reports.iter().for_each(|report| self.record_node(batch.index, report, &ending, &mut seen));
        if seen.is_empty() {
            self.logged.push((batch.index, Vec::new()));
        } else {
            self.seen.push((batch.index, seen));
        }
    }

    /// The allocations whose end the store has and that is not published yet.
    fn ending(&self) -> BTreeSet<AllocSlot> {
        let ahead = self.entries.iter().take_while(|entry| entry.group == self.group);
        let ended = |change: &StateChange| match change {
            StateChange::AllocEnded(slot) => Some(*slot),
            _ => None,
        };
        ahead.flat_map(|entry| entry.changes.iter().filter_map(ended)).collect()
    }

    fn record_node(
        &mut self,
        index: Index,
        report: &NodeReport,
        ending: &BTreeSet<AllocSlot>,
        recorded: &mut Vec<(AllocSlot, AllocId)>,
    ) {
        let Self { store, observed, records, .. } = &mut *self;
        let record = records.entry(report.node).or_default();
        for seen in &report.seen {
            let id = seen.alloc.id;
            let Some(slot) = seen.slot_in(store) else { continue };
            let Some(row) = store.allocs().row(slot) else { continue };
            if row.is_terminal() && !ending.contains(&slot) {
                // The log has its end: nothing that comes later has an index any more.
                continue;
            }
            let before = observed.record(slot, row.job, row.group, seen.alloc.clone(), index);
            record.digest = record.digest.wrapping_sub(before).wrapping_add(seen.alloc.hash);
            recorded.push((slot, id));
        }
        if let Some(version) = report.version {
            record.version = version;
        }
        if let Some(slot) = store.nodes().find(report.node) {
            self.update_reported(slot, report.node, index);
        }
    }

    /// Shows readers how far a node's agent has come by what is recorded up to an index.
    fn update_reported(&mut self, slot: NodeSlot, node: NodeId, index: Index) {
        let Some(ReportVersion { epoch, seq, confirmed }) = self.record_of(node).map(|record| record.version)
        else {
            return;
        };
        self.observed.set_reported(slot, NodeReported { node, epoch, seq, confirmed, index });
    }

    /// An agent may report before its node is registered.
    fn on_node_registered(&mut self, slot: NodeSlot) {
        let Some(node) = self.store.nodes().row(slot).map(|row| row.id) else { return };
        if self.observed.reported(slot, node).is_none() {
            self.update_reported(slot, node, self.last);
        }
    }

    /// The end of the allocation in a slot is in the log; none when the state has forgotten that allocation, whose slot may be
    /// another's.
    pub fn on_alloc_ended(&mut self, slot: AllocSlot) -> Option<EndedAlloc> {
        let row = self.store.allocs().row(slot).copied().filter(AllocRow::is_terminal)?;
        Some(self.end(slot, &row))
    }

    fn end(&mut self, slot: AllocSlot, row: &AllocRow) -> EndedAlloc {
        let node_id = self.store.nodes().row(row.node).map(|node| node.id);
        let seen = self.observed.get(slot, row.id).map(|observation| observation.alloc.clone());
        let record = node_id.and_then(|node| self.records.get_mut(&node));
        if let (Some(record), Some(seen)) = (record, &seen) {
            record.digest = record.digest.wrapping_sub(seen.hash);
        }
        self.observed.end(slot, row.id, row.job, row.group);
        EndedAlloc { id: row.id, node: row.node, node_id, seen }
    }

    /// What follows for the observed state from a change that is none of a living allocation.
    pub fn on_change(&mut self, change: &StateChange) {
        match change {
            StateChange::AllocUpdated(slot, moved) => {
                if let Some(row) = self.store.allocs().row(*slot) {
                    self.observed.regroup(*slot, row.id, row.job, *moved);
                }
            }
            StateChange::NodeRegistered(slot) => self.on_node_registered(*slot),
            StateChange::AllocCollected(slot, id, _) => self.observed.forget(*slot, *id),
            StateChange::JobCollected(slot, _) => self.observed.drop_job(*slot),
            StateChange::NodeCollected(slot, id) => {
                self.observed.drop_node(*slot, *id);
                self.records.remove(id);
            }
            _ => {}
        }
    }

    /// A node is declared down: its agent is to report everything again.
    pub fn on_node_lost(&mut self, node: NodeId) {
        if let Some(record) = self.records.get_mut(&node) {
            record.version.confirmed = false;
        }
        let Some(slot) = self.store.nodes().find(node) else { return };
        if let Some(reported) = self.observed.reported(slot, node).copied() {
            self.observed.set_reported(slot, NodeReported { confirmed: false, ..reported });
        }
    }

    /// Lets readers see what has changed.
    pub fn publish(&mut self, actions: &mut Vec<Action>) {
        // Before a leader has reported what it knows, nobody knows which index a recovered state may be read at.
        if self.readable_from.is_none_or(|from| self.last < from) {
            // Nobody follows yet.
            self.logged.clear();
            self.seen.clear();
            return;
        }
        let is_new = self.published.0 != self.last || !Arc::ptr_eq(&self.published.1, &self.recovery);
        if !is_new && !self.is_anew {
            return;
        }
        let (index, recovery) = (self.last, self.recovery.clone());
        self.published = (index, recovery.clone());
        let (store, observed) = (self.store.clone(), self.observed.clone());
        self.readable = store.index();
        let is_anew = std::mem::take(&mut self.is_anew);
        if is_anew {
            // Whoever follows from now on begins here: what led here has been published before, or never will be.
            self.seen.clear();
            self.logged = vec![(self.last, Vec::new())];
        }
        let (logged, seen) = (std::mem::take(&mut self.logged), std::mem::take(&mut self.seen));
        actions.push(Action::Publish { store, observed, index, logged, seen, recovery, is_anew });
    }
}

#[cfg(test)]
mod tests;

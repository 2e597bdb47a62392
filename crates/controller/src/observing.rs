//! What agents observe, published in its place in the one order of changes.

use std::{collections::VecDeque, sync::Arc};

use berth_model::{
    AllocId, Index,
    observed::{Observed, ObservedAlloc},
    store::{AllocSlot, Store},
};

/// An observation of the allocation that was in this slot when it came.
type Seen = (AllocSlot, Arc<ObservedAlloc>);

/// Observed changes and where they are published.
#[derive(Debug, Default)]
pub(crate) struct Observing {
    pub observed: Observed,
    /// Received since the last batch was given an index.
    fresh: Vec<Seen>,
    /// With an index, waiting for the entries proposed before them.
    batches: VecDeque<(Index, Vec<Seen>)>,
}

impl Observing {
    /// Takes an observation in; it is published later.
    pub fn receive(&mut self, slot: AllocSlot, alloc: Arc<ObservedAlloc>) {
        self.fresh.push((slot, alloc));
    }

    /// Gives what was received its place.
    pub fn mint(&mut self, mint: impl FnOnce() -> Option<Index>) {
        if self.fresh.is_empty() {
            return;
        }
        if let Some(index) = mint() {
            self.batches.push_back((index, std::mem::take(&mut self.fresh)));
        }
    }

    /// Publishes the batches that stand before `first_in_flight`, the first entry not yet applied.
    pub fn publish(
        &mut self,
        store: &Store,
        first_in_flight: Option<Index>,
    ) -> Vec<(Index, Vec<(AllocSlot, AllocId)>)> {
        let mut published = Vec::new();
        while let Some((index, allocs)) =
            self.batches.pop_front_if(|(index, _)| first_in_flight.is_none_or(|first| *index < first))
        {
            let changes: Vec<_> =
                allocs.into_iter().filter_map(|seen| self.record(store, seen, index)).collect();
            if !changes.is_empty() {
                published.push((index, changes));
            }
        }
        published
    }

    fn record(&mut self, store: &Store, (slot, alloc): Seen, index: Index) -> Option<(AllocSlot, AllocId)> {
        let id = alloc.id;
        let row = store.allocs().row(slot).filter(|row| row.id == id)?;
        let job = store.jobs().row(row.job)?;
        self.observed.record(slot, &job.key, row.group, alloc, index);
        if row.is_terminal() {
            self.observed.end(slot, id, &job.key, row.group);
        }
        Some((slot, id))
    }
}

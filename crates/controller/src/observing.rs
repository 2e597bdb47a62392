//! What agents observe gets its place in the one order of changes from the leader, and is published by every replica.

use std::{collections::VecDeque, sync::Arc};

use berth_model::{Index, observed::ObservedAlloc, store::AllocSlot};

/// An observation of the allocation that was in this slot when it came.
pub(crate) type Seen = (AllocSlot, Arc<ObservedAlloc>);

/// Observations that have one index, ready to be published.
#[derive(Debug)]
pub(crate) struct Batch {
    pub index: Index,
    pub seen: Vec<Seen>,
}

/// Observations on their way to being published.
#[derive(Debug, Default)]
pub(crate) struct Observing {
    /// Received since the last batch was given an index.
    fresh: Vec<Seen>,
    /// With an index, waiting for the entries proposed before them.
    batches: VecDeque<Batch>,
}

impl Observing {
    /// Takes an observation in.
    pub fn receive(&mut self, slot: AllocSlot, alloc: Arc<ObservedAlloc>) {
        self.fresh.push((slot, alloc));
    }

    /// Gives what was received its place.
    pub fn mint(&mut self, mint: impl FnOnce() -> Option<Index>) {
        if self.fresh.is_empty() {
            return;
        }
        if let Some(index) = mint() {
            self.batches.push_back(Batch { index, seen: std::mem::take(&mut self.fresh) });
        }
    }

    /// The batches that stand before `first_in_flight`, the first entry that is not applied yet.
    pub fn ready(&mut self, first_in_flight: Option<Index>) -> Vec<Batch> {
        let mut ready = Vec::new();
        while let Some(batch) =
            self.batches.pop_front_if(|batch| first_in_flight.is_none_or(|first| batch.index < first))
        {
            ready.push(batch);
        }
        ready
    }
}

//! What changed, in the one order of changes, for whoever follows along: a bounded ring of batches, each with the state
//! it led to.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use berth_model::{AllocId, Index, event::Event, store::AllocSlot};
use tokio::sync::Notify;

use crate::state::View;

/// Batches kept for followers that join late or are slow.
const BATCHES_MAX: usize = 4096;
/// Bytes of old state that kept batches may hold on to.
const PINNED_BYTES_MAX: u64 = 256 << 20;
/// About what an observation that has been replaced takes.
const OBSERVATION_BYTES: u64 = 2 << 10;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// In the log: exact and resumable.
    Logged(Event),
    /// Observed by an agent: the latest value, at least once.
    Observed(AllocSlot, AllocId),
}

/// All changes of one index.
#[derive(Debug)]
pub struct Batch {
    /// Where they stand.
    pub index: Index,
    /// The state they led to; later writes do not change it.
    pub view: Arc<View>,
    /// In order.
    pub changes: Vec<Change>,
}

/// Keeps the last batches and wakes their followers.
#[derive(Debug, Default)]
pub struct EventHub {
    ring: Mutex<Ring>,
    published: Notify,
}

#[derive(Debug, Default)]
struct Ring {
    /// Each with what it makes the ring hold on to.
    batches: VecDeque<(Arc<Batch>, u64)>,
    /// What the kept batches hold on to, and what the last one's state had copied by then.
    pinned_bytes: u64,
    copied_bytes: u64,
    /// How many batches were dropped from the front.
    dropped: u64,
    /// The index of the last of these.
    dropped_index: Index,
}

/// Why a follower cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionError {
    /// Batches that it wanted are gone.
    #[error("events at index {from} are no longer kept: read the state, then follow from index={resume} on")]
    TooOld {
        /// The first index that it wanted.
        from: Index,
        /// From which index on all events are still kept. A state that is read now holds all that came before.
        resume: Index,
    },
}

/// A follower's place.
#[derive(Debug, Clone)]
pub struct Subscription {
    hub: Arc<EventHub>,
    /// Counts batches since the start.
    next: u64,
    last_index: Index,
}

impl EventHub {
    /// Adds a batch; batches come in order of their index.
    pub fn publish(&self, batch: Batch) {
        let mut ring = self.lock();
        ring.push(batch);
        drop(ring);
        self.published.notify_waiters();
    }

    /// Follows from now on.
    pub fn subscribe(self: &Arc<Self>) -> Subscription {
        let ring = self.lock();
        let last_index = ring.batches.back().map_or(ring.dropped_index, |(batch, _)| batch.index);
        Subscription { hub: self.clone(), next: ring.dropped + ring.batches.len() as u64, last_index }
    }

    /// Follows from the batch at `index` on, or the first after it.
    ///
    /// # Errors
    /// When batches from there on have been dropped.
    pub fn subscribe_from(self: &Arc<Self>, index: Index) -> Result<Subscription, SubscriptionError> {
        let ring = self.lock();
        if index <= ring.dropped_index {
            return Err(SubscriptionError::TooOld { from: index, resume: ring.resume() });
        }
        let skip = ring.batches.partition_point(|(batch, _)| batch.index < index) as u64;
        let last_index = Index(index.0.saturating_sub(1));
        Ok(Subscription { hub: self.clone(), next: ring.dropped + skip, last_index })
    }

    /// Nothing before this index is known: the state was restored. Whoever followed until now has missed that.
    pub fn restart_after(&self, index: Index) {
        let mut ring = self.lock();
        ring.dropped += ring.batches.len() as u64 + 1;
        ring.batches.clear();
        (ring.pinned_bytes, ring.copied_bytes) = (0, 0);
        ring.dropped_index = index;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().expect("nothing panics while it holds this lock")
    }
}

impl Ring {
    /// From which index on all batches are still kept.
    fn resume(&self) -> Index {
        Index(self.dropped_index.0.saturating_add(1))
    }

    fn push(&mut self, batch: Batch) {
        let copied_bytes = batch.view.store.copied_bytes() + batch.view.observed.copied_bytes();
        let observed =
            batch.changes.iter().filter(|change| matches!(change, Change::Observed(..))).count() as u64;
        let bytes = copied_bytes.saturating_sub(self.copied_bytes) + observed * OBSERVATION_BYTES;
        self.copied_bytes = copied_bytes;
        self.pinned_bytes += bytes;
        self.batches.push_back((Arc::new(batch), bytes));
        while self.batches.len() > BATCHES_MAX || self.pinned_bytes > PINNED_BYTES_MAX {
            let Some((oldest, bytes)) = self.batches.pop_front() else { break };
            self.pinned_bytes -= bytes;
            self.dropped += 1;
            self.dropped_index = oldest.index;
        }
    }
}

impl Subscription {
    /// The next batch, as soon as there is one.
    ///
    /// # Errors
    /// When the follower was too slow and what it had to read next has been dropped.
    pub async fn next(&mut self) -> Result<Arc<Batch>, SubscriptionError> {
        loop {
            let published = self.hub.clone();
            let published = published.published.notified();
            if let Some(batch) = self.try_next()? {
                return Ok(batch);
            }
            published.await;
        }
    }

    /// How many batches are there to be taken.
    pub fn waiting(&self) -> u64 {
        let ring = self.hub.lock();
        (ring.dropped + ring.batches.len() as u64).saturating_sub(self.next)
    }

    /// The next batch if it is there.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn try_next(&mut self) -> Result<Option<Arc<Batch>>, SubscriptionError> {
        let ring = self.hub.lock();
        let Some(at) = self.next.checked_sub(ring.dropped) else {
            let from = Index(self.last_index.0.saturating_add(1));
            return Err(SubscriptionError::TooOld { from, resume: ring.resume() });
        };
        let batch = usize::try_from(at).ok().and_then(|at| ring.batches.get(at));
        let Some((batch, _)) = batch else { return Ok(None) };
        self.next += 1;
        self.last_index = batch.index;
        Ok(Some(batch.clone()))
    }
}

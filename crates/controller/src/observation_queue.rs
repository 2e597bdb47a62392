//! What agents observe gets its position in the one order of changes from the leader, and is published by every replica.

use std::{collections::VecDeque, sync::Arc};

use berth_model::Index;

use crate::messages::{FRAME_BYTES, NodeReport, ObservationBatch, ServerId};

/// Observations on their way to being published.
#[derive(Debug, Default)]
pub(crate) struct ObservationQueue {
    /// Received since the last batch was given an index.
    fresh: Vec<Arc<NodeReport>>,
    /// With an index, waiting for the entries proposed before them.
    pending: VecDeque<PendingObservation>,
    /// Sent to all, and not published by this server's own replica, which may be sent much at once: neither there nor here
    /// would anybody find it who looks for what another server lacks.
    unpublished: VecDeque<Arc<ObservationBatch>>,
}

#[derive(Debug)]
struct PendingObservation {
    index: Index,
    /// The last entry before it that was applied.
    after: Index,
    what: PendingKind,
}

#[derive(Debug)]
enum PendingKind {
    Reports(Vec<Arc<NodeReport>>),
    /// A place for what a server lacks.
    Sync(ServerId),
}

/// What every entry before it has been applied of.
#[derive(Debug)]
pub(crate) enum OrderedObservation {
    /// To be published by all.
    Batch(Arc<ObservationBatch>),
    /// To be sent to one, which lacks it: at this index, after that entry.
    Sync(ServerId, Index, Index),
}

impl ObservationQueue {
    /// Takes a report in.
    pub fn receive(&mut self, report: Arc<NodeReport>) {
        self.fresh.push(report);
    }

    /// What has been received and is not published yet.
    pub fn in_flight(&self) -> impl Iterator<Item = &Arc<NodeReport>> {
        let pending = self.pending.iter().filter_map(|pending| match &pending.what {
            PendingKind::Reports(reports) => Some(reports),
            PendingKind::Sync(_) => None,
        });
        pending.flatten().chain(&self.fresh)
    }

    /// Gives what was received its places, one for what fits a frame; `after` is the last entry that was applied.
    pub fn mint(&mut self, after: Index, mut mint: impl FnMut() -> Option<Index>) {
        let mut fresh = std::mem::take(&mut self.fresh).into_iter().peekable();
        while fresh.peek().is_some()
            && let Some(index) = mint()
        {
            let mut bytes = 0;
            let mut fits = |report: &Arc<NodeReport>| {
                let is_first = bytes == 0;
                bytes += report.bytes();
                is_first || bytes <= FRAME_BYTES
            };
            let reports = std::iter::from_fn(|| fresh.next_if(&mut fits)).collect();
            self.pending.push_back(PendingObservation { index, after, what: PendingKind::Reports(reports) });
        }
        self.fresh = fresh.collect();
    }

    /// Keeps a place for what a server lacks.
    pub fn sync(&mut self, server: ServerId, index: Index, after: Index) {
        self.pending.push_back(PendingObservation { index, after, what: PendingKind::Sync(server) });
    }

    /// An entry was applied: what stands behind it knows.
    pub fn on_applied(&mut self, entry: Index) {
        let behind = self.pending.iter_mut().filter(|pending| pending.index > entry);
        behind.for_each(|pending| pending.after = pending.after.max(entry));
    }

    /// What stands before `first_in_flight`, the first entry that is not applied yet.
    pub fn ready(&mut self, first_in_flight: Option<Index>) -> Vec<OrderedObservation> {
        let mut ready = Vec::new();
        let is_ready =
            |pending: &mut PendingObservation| first_in_flight.is_none_or(|first| pending.index < first);
        while let Some(PendingObservation { index, after, what }) = self.pending.pop_front_if(is_ready) {
            ready.push(match what {
                PendingKind::Reports(reports) => {
                    OrderedObservation::Batch(Arc::new(ObservationBatch::new(index, after, reports)))
                }
                PendingKind::Sync(server) => OrderedObservation::Sync(server, index, after),
            });
        }
        ready
    }

    /// A batch is sent to all; this server's own replica has published as far as that.
    pub fn add_sent(&mut self, batch: Arc<ObservationBatch>, published: Index) {
        self.forget(published);
        self.unpublished.push_back(batch);
    }

    /// What was sent to all and this server's own replica, which has published as far as that, has yet to publish.
    pub fn unpublished(&mut self, published: Index) -> &[Arc<ObservationBatch>] {
        self.forget(published);
        self.unpublished.make_contiguous()
    }

    fn forget(&mut self, published: Index) {
        while self.unpublished.pop_front_if(|batch| batch.index <= published).is_some() {}
    }

    /// Everything observed up to here is published, `last` being the last index that was minted.
    pub fn sent_up_to(&self, last: Index) -> Index {
        self.pending.front().map_or(last, |first| Index(first.index.0 - 1))
    }
}

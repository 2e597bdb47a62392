//! Which of a node's allocations wait for something.
//!
//! Most wait for nothing, so that what happens to one of them costs the same however many a node has; and a node where
//! none does pays nothing for it.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::agent::AllocId;

#[derive(Debug, Default)]
pub(super) struct Pending(Option<Box<Lists>>);

#[derive(Debug, Default)]
struct Lists {
    /// For others to end.
    for_others: BTreeSet<AllocId>,
    /// Until then: nanoseconds since the Unix epoch.
    for_time: BTreeMap<AllocId, u64>,
    /// The same, the first to be due first.
    by_time: BTreeSet<(u64, AllocId)>,
}

impl Pending {
    /// Notes whether an allocation waits for others to end, and for when.
    pub(super) fn note(&mut self, id: AllocId, for_others: bool, until_ns: Option<u64>) {
        if self.0.is_none() && !for_others && until_ns.is_none() {
            return;
        }
        let lists = self.0.get_or_insert_default();
        if for_others {
            lists.for_others.insert(id);
        } else {
            lists.for_others.remove(&id);
        }
        let before = match until_ns {
            Some(at_ns) => lists.for_time.insert(id, at_ns),
            None => lists.for_time.remove(&id),
        };
        if before != until_ns {
            before.map(|at_ns| lists.by_time.remove(&(at_ns, id)));
            until_ns.map(|at_ns| lists.by_time.insert((at_ns, id)));
        }
        if lists.for_others.is_empty() && lists.for_time.is_empty() {
            self.0 = None;
        }
    }

    /// Those that wait for others to end, by id.
    pub(super) fn for_others(&self) -> impl Iterator<Item = AllocId> {
        self.0.iter().flat_map(|lists| lists.for_others.iter().copied())
    }

    /// When the first wait for time is over: nanoseconds since the Unix epoch.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.0.as_ref()?.by_time.first().map(|(at_ns, _)| *at_ns)
    }

    /// Those whose wait for time is over, the first to be due first.
    pub(super) fn due(&self, now_ns: u64) -> impl Iterator<Item = AllocId> {
        let by_time = self.0.iter().flat_map(|lists| &lists.by_time);
        by_time.take_while(move |(at_ns, _)| *at_ns <= now_ns).map(|(_, id)| *id)
    }
}

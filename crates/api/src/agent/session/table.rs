//! What a node should run and what it runs, with the digests of both, which follow each change in O(1).

use bytes::Bytes;

use super::AllocId;
use crate::agent::{Desired, Digest, desired_hash, observed_hash};

/// One allocation that the servers still ask about. Sorted small vectors beat maps here: a node has at most a few
/// hundred of them, and a lab process holds tens of thousands of nodes.
#[derive(Debug)]
struct Entry {
    id: AllocId,
    stop: bool,
    seq: u64,
    /// The encoded status as it crosses the wire; empty until the first observation.
    status: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    desired: Digest,
    observed: Digest,
}

impl Table {
    pub(super) fn desired(&self) -> Digest {
        self.desired
    }

    pub(super) fn observed(&self) -> Digest {
        self.observed
    }

    fn position(&self, id: AllocId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id)
    }

    /// Takes over wishes. Ids of a wrong length are the shell's to refuse; here they change nothing.
    pub(super) fn apply(&mut self, desired: &Desired) {
        if desired.full {
            self.keep_named(desired);
        }
        named(desired.run.iter().map(|run| &run.alloc_id)).for_each(|id| self.wish(id, false));
        named(desired.stop.iter().map(|stop| &stop.alloc_id)).for_each(|id| self.wish(id, true));
        named(desired.forget.iter().chain(&desired.purge)).for_each(|id| self.remove(id));
    }

    fn keep_named(&mut self, desired: &Desired) {
        let runs = desired.run.iter().map(|run| &run.alloc_id);
        let mut kept: Vec<_> = named(runs.chain(desired.stop.iter().map(|stop| &stop.alloc_id))).collect();
        kept.sort_unstable();
        let gone = self.entries.iter().map(|entry| entry.id).filter(|id| kept.binary_search(id).is_err());
        gone.collect::<Vec<_>>().into_iter().for_each(|id| self.remove(id));
    }

    pub(super) fn wish(&mut self, id: AllocId, stop: bool) {
        match self.position(id) {
            Ok(position) => {
                self.desired.remove(desired_hash(&id.0, self.entries[position].stop));
                self.entries[position].stop = stop;
            }
            Err(position) => self.entries.insert(position, Entry { id, stop, seq: 0, status: Bytes::new() }),
        }
        self.desired.add(desired_hash(&id.0, stop));
    }

    fn remove(&mut self, id: AllocId) {
        let Ok(position) = self.position(id) else { return };
        let entry = self.entries.remove(position);
        self.desired.remove(desired_hash(&id.0, entry.stop));
        if !entry.status.is_empty() {
            self.observed.remove(observed_hash(&entry.status));
        }
    }

    /// Notes a status; false when it says nothing new or nobody asks for it.
    pub(super) fn observe(&mut self, id: AllocId, status: Bytes, seq: u64) -> bool {
        let Ok(position) = self.position(id) else { return false };
        let entry = &mut self.entries[position];
        if entry.status == status {
            return false;
        }
        if !entry.status.is_empty() {
            self.observed.remove(observed_hash(&entry.status));
        }
        self.observed.add(observed_hash(&status));
        entry.status = status;
        entry.seq = seq;
        true
    }

    /// The statuses that changed after `seq`, in no order.
    pub(super) fn changed_after(&self, seq: u64) -> impl Iterator<Item = (u64, &Bytes)> {
        let observed = self.entries.iter().filter(|entry| !entry.status.is_empty());
        observed.filter(move |entry| entry.seq > seq).map(|entry| (entry.seq, &entry.status))
    }
}

fn named<'a>(ids: impl Iterator<Item = &'a Vec<u8>>) -> impl Iterator<Item = AllocId> {
    ids.filter_map(|id| AllocId::from_slice(id))
}

//! The allocations of a node, desired and observed, with the digests of both, which are updated in O(1).

use bytes::Bytes;

use super::AllocId;
use crate::agent::{Desired, Digest, desired_hash, observed_hash};

/// One allocation that is reported to the servers. Sorted small vectors beat maps here: a node has at most a few
/// hundred of them, and a lab process holds tens of thousands of nodes.
#[derive(Debug)]
struct AllocEntry {
    id: AllocId,
    wanted: DesiredRun,
    seq: u64,
    /// The encoded status as it crosses the wire; empty until the first observation.
    status: Bytes,
}

/// What the servers want of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DesiredRun {
    /// As its newest revision.
    Run(u64),
    Stop,
    /// A full list did not name it: it is to end, and stays known until a server forgets it.
    Unnamed,
}

impl DesiredRun {
    fn hash(self, id: AllocId) -> u128 {
        match self {
            Self::Run(revision) => desired_hash(&id.0, Some(revision)),
            Self::Stop => desired_hash(&id.0, None),
            Self::Unnamed => 0,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct AllocTable {
    entries: Vec<AllocEntry>,
    desired: Digest,
    observed: Digest,
}

impl AllocTable {
    pub(super) fn desired(&self) -> Digest {
        self.desired
    }

    pub(super) fn observed(&self) -> Digest {
        self.observed
    }

    fn position(&self, id: AllocId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id)
    }

    /// Takes over what a message names.
    pub(super) fn apply(&mut self, desired: &Desired) {
        for run in &desired.run {
            ids([&run.alloc_id].into_iter()).for_each(|id| self.want(id, DesiredRun::Run(run.revision)));
        }
        ids(desired.stop.iter().map(|stop| &stop.alloc_id)).for_each(|id| self.want(id, DesiredRun::Stop));
        ids(desired.forget.iter().chain(&desired.purge)).for_each(|id| self.remove(id));
    }

    /// Takes over what an earlier run of the agent held.
    pub(super) fn restore(&mut self, id: AllocId, revision: Option<u64>) {
        self.want(id, revision.map_or(DesiredRun::Stop, DesiredRun::Run));
    }

    /// Those that a full list did not name, by id; `named` is sorted. Each counts as changed, after `seq`, so that it is
    /// reported: the servers may know nothing of it.
    pub(super) fn leave_out(&mut self, named: &[AllocId], seq: &mut u64) -> Vec<AllocId> {
        let all = self.entries.iter().map(|entry| entry.id);
        let left_out: Vec<_> = all.filter(|id| named.binary_search(id).is_err()).collect();
        for id in &left_out {
            self.want(*id, DesiredRun::Unnamed);
            if let Ok(position) = self.position(*id) {
                *seq += 1;
                self.entries[position].seq = *seq;
            }
        }
        left_out
    }

    fn want(&mut self, id: AllocId, run: DesiredRun) {
        match self.position(id) {
            Ok(position) => {
                self.desired.remove(self.entries[position].wanted.hash(id));
                self.entries[position].wanted = run;
            }
            Err(position) => {
                self.entries.insert(position, AllocEntry { id, wanted: run, seq: 0, status: Bytes::new() });
            }
        }
        self.desired.add(run.hash(id));
    }

    fn remove(&mut self, id: AllocId) {
        let Ok(position) = self.position(id) else { return };
        let entry = self.entries.remove(position);
        self.desired.remove(entry.wanted.hash(id));
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

fn ids<'a>(ids: impl Iterator<Item = &'a Vec<u8>>) -> impl Iterator<Item = AllocId> {
    ids.filter_map(|id| AllocId::from_slice(id))
}

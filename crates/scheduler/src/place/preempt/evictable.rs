//! Follows what allocations hold on every node, and at which priority.

use std::collections::BTreeSet;

use berth_model::{
    resources::Resources,
    store::{AllocRow, AllocSlot, JobSlot, NodeSlot, Store},
};

use super::{
    bulk::{ResourceVector, devices_milli, free_milli},
    reaches::Reaches,
};

/// What could be freed: once for those who may preempt whatever is lower, once for those who leave batch work alone.
#[derive(Debug, Default)]
pub struct Evictable {
    all: EvictableByNode,
    services: EvictableByNode,
}

/// What could be freed, as of one state.
#[derive(Debug, Default)]
struct EvictableByNode {
    reaches: Reaches,
    position: u64,
    /// Nodes that show a plan at work, which may never come true.
    tentative: Vec<NodeSlot>,
    held: Vec<(u8, ResourceVector)>,
}

impl Evictable {
    /// Catches up with a newer state.
    pub fn follow(&mut self, store: &Store, batch: bool) {
        let followed = self.of(batch);
        let free = |slot| free(store, slot);
        let all = |_: &AllocRow| true;
        for slot in std::mem::take(&mut followed.tentative) {
            followed.read(store, slot, batch, free(slot), all);
        }
        let nodes = store.nodes();
        match nodes.changes_since(followed.position) {
            Some(changed) => {
                // Many changes are often of few nodes.
                let changed: BTreeSet<NodeSlot> = changed.collect();
                changed.into_iter().for_each(|slot| followed.read(store, slot, batch, free(slot), all));
            }
            None => {
                followed.reaches = Reaches::default();
                let slots = (0..nodes.slots()).filter_map(|at| Some(NodeSlot(u32::try_from(at).ok()?)));
                slots.for_each(|slot| followed.read(store, slot, batch, free(slot), all));
            }
        }
        followed.position = nodes.changes_end();
    }

    /// What a plan at work leaves of a node: that much is free, and these are still there. Forgotten with the next state.
    pub fn suppose(
        &mut self,
        store: &Store,
        (slot, batch): (NodeSlot, bool),
        free: ResourceVector,
        is_there: impl Fn(&AllocRow) -> bool,
    ) {
        let followed = self.of(batch);
        followed.tentative.push(slot);
        followed.read(store, slot, batch, free, is_there);
    }

    /// Done with changes, for now.
    pub fn settle(&mut self, batch: bool) {
        self.of(batch).reaches.settle();
    }

    /// What could be freed of each node.
    pub fn reaches(&self, batch: bool) -> &Reaches {
        if batch { &self.all.reaches } else { &self.services.reaches }
    }

    fn of(&mut self, batch: bool) -> &mut EvictableByNode {
        if batch { &mut self.all } else { &mut self.services }
    }
}

impl EvictableByNode {
    fn read(
        &mut self,
        store: &Store,
        slot: NodeSlot,
        batch: bool,
        free: ResourceVector,
        is_there: impl Fn(&AllocRow) -> bool,
    ) {
        let peers = desired(store, slot, batch).filter(|(_, alloc, _)| is_there(alloc));
        self.held.clear();
        self.held.extend(peers.map(|(slot, alloc, priority)| (priority, held(store, slot, alloc))));
        let capacity = store.nodes().row(slot).map_or(Resources::ZERO, |row| row.capacity);
        self.reaches.set(slot, capacity, free, &self.held);
    }
}

/// The allocations of a node that are meant to go on, with their priorities; batch work if it is asked for.
pub fn desired(
    store: &Store,
    node: NodeSlot,
    batch: bool,
) -> impl Iterator<Item = (AllocSlot, &AllocRow, u8)> {
    let live = store.nodes().row(node).into_iter().flat_map(|row| store.nodes().live(row));
    let live = live.filter_map(|slot| Some((slot, store.allocs().row(slot)?)));
    // Neighbours are often of one job.
    let mut last: Option<((JobSlot, u64), u8, bool)> = None;
    live.filter(|(_, alloc)| alloc.is_desired()).filter_map(move |(slot, alloc)| {
        let of = (alloc.job, alloc.job_version);
        let (_, priority, is_batch) = match last.filter(|(last, ..)| *last == of) {
            Some(known) => known,
            None => {
                let (job, _) = store.job_of(alloc)?;
                *last.insert((of, job.priority, job.job_type.runs_to_completion()))
            }
        };
        (batch || !is_batch).then_some((slot, alloc, priority))
    })
}

/// All that an allocation holds.
fn held(store: &Store, slot: AllocSlot, alloc: &AllocRow) -> ResourceVector {
    let devices = store.allocs().extra(slot).map_or(0, |extra| devices_milli(&extra.devices));
    ResourceVector::of(alloc.held, devices)
}

/// What is free on a node, claims of other plans apart; nothing where nothing may be placed.
fn free(store: &Store, slot: NodeSlot) -> ResourceVector {
    let nodes = store.nodes();
    let Some((row, detail)) = nodes.row(slot).filter(|row| row.is_ready()).zip(nodes.detail(slot)) else {
        return ResourceVector::default();
    };
    ResourceVector::of(row.free(), free_milli(&detail.node, &detail.devices))
}

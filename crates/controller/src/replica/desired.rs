//! What nodes should do: all of it for an agent that says hello, and what has changed since for the others. What
//! cannot be sent yet is kept here, where the newer replaces the older.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocId,
    alloc::{DesiredStatus, StopReason},
    store::{AllocSlot, NodeSlot, Store},
};
use berth_scheduler::filters::Feature;

/// Desired state of a node, or what has changed of it.
#[derive(Debug, Default)]
pub(crate) struct DesiredChange {
    pub run: Vec<AllocSlot>,
    pub stop: Vec<(AllocId, StopReason)>,
    pub forget: Vec<AllocId>,
    pub purge: Vec<AllocId>,
}

/// What has changed for nodes since they were last informed.
#[derive(Debug, Default)]
pub(crate) struct DesiredChanges {
    by_node: BTreeMap<NodeSlot, ChangedAllocs>,
}

/// What has changed for one node. Bounded by the allocations of the node, living and ended.
#[derive(Debug, Default)]
struct ChangedAllocs {
    /// Everything is to be sent again.
    all: bool,
    allocs: BTreeSet<AllocSlot>,
    forget: BTreeSet<AllocId>,
    purge: BTreeSet<AllocId>,
}

impl DesiredChanges {
    /// An allocation should run, or stop.
    pub fn alloc(&mut self, node: NodeSlot, alloc: AllocSlot) {
        self.by_node.entry(node).or_default().allocs.insert(alloc);
    }

    /// The end of an allocation is in the log, or nobody knows the allocation.
    pub fn forget(&mut self, node: NodeSlot, alloc: AllocId) {
        self.by_node.entry(node).or_default().forget.insert(alloc);
    }

    /// Nobody will ask for the files of an allocation any more.
    pub fn purge(&mut self, node: NodeSlot, alloc: AllocId) {
        self.by_node.entry(node).or_default().purge.insert(alloc);
    }

    /// What the agent of a node holds is not what it was sent.
    pub fn all(&mut self, node: NodeSlot) {
        self.by_node.entry(node).or_default().all = true;
    }

    /// Whether nothing waits to be sent to a node.
    pub fn is_informed(&self, node: NodeSlot) -> bool {
        !self.by_node.contains_key(&node)
    }

    /// A node is sent everything now, or is gone.
    pub fn clear(&mut self, node: NodeSlot) {
        self.by_node.remove(&node);
    }

    /// Takes what has changed for the nodes that `is_ready` names; whether it is all that there is for each.
    pub fn take(
        &mut self,
        store: &Store,
        mut is_ready: impl FnMut(NodeSlot) -> bool,
    ) -> Vec<(NodeSlot, bool, DesiredChange)> {
        let ready = self.by_node.extract_if(.., |node, _| is_ready(*node));
        ready.map(|(node, changed)| (node, changed.all, changed.lists(store, node))).collect()
    }
}

impl ChangedAllocs {
    fn lists(self, store: &Store, node: NodeSlot) -> DesiredChange {
        let mut lists = if self.all { of_node(store, node) } else { DesiredChange::default() };
        lists.forget = self.forget.into_iter().collect();
        lists.purge = self.purge.into_iter().collect();
        if !self.all {
            self.allocs.into_iter().for_each(|alloc| lists.add(store, node, alloc));
        }
        lists
    }
}

impl DesiredChange {
    /// Adds what is desired of an allocation, unless it has ended or is another node's.
    fn add(&mut self, store: &Store, node: NodeSlot, alloc: AllocSlot) {
        let row = store.allocs().row(alloc).filter(|row| row.node == node && !row.is_terminal());
        match row.map(|row| (row.desired, row.id)) {
            Some((DesiredStatus::Run, _)) => self.run.push(alloc),
            Some((DesiredStatus::Stop, id)) => self.stop.push((id, stop_reason(store, alloc))),
            None => {}
        }
    }

    /// The digest of a node's desired state that is this and nothing else, as its agent makes it: one that knows nothing of
    /// updates holds everything as it was placed.
    pub fn digest(&self, store: &Store, node: NodeSlot, hash: fn(AllocId, Option<u64>) -> u128) -> u128 {
        let runs = || self.run.iter().filter_map(|slot| store.allocs().row(*slot));
        let knows = || {
            let detail = store.nodes().detail(node);
            detail.is_some_and(|detail| Feature::InPlaceUpdates.is_known_by(&detail.node))
        };
        let updated_known = runs().any(|row| row.updated) && knows();
        let hashes = runs().map(|row| hash(row.id, Some(if updated_known { row.revision() } else { 0 })));
        hashes.chain(self.stop.iter().map(|(id, _)| hash(*id, None))).fold(0, u128::wrapping_add)
    }
}

/// Everything that a node should do.
pub(crate) fn of_node(store: &Store, node: NodeSlot) -> DesiredChange {
    let mut lists = DesiredChange::default();
    if let Some(row) = store.nodes().row(node) {
        store.nodes().live(row).for_each(|alloc| lists.add(store, node, alloc));
    }
    lists
}

/// Why an allocation is to end.
pub(crate) fn stop_reason(store: &Store, alloc: AllocSlot) -> StopReason {
    let extra = store.allocs().extra(alloc);
    extra.and_then(|extra| extra.stop_reason).unwrap_or(StopReason::Requested)
}

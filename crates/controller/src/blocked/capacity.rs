//! Where capacity came, and when; what of it is meant for work that is being tried.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Index,
    resources::Resources,
    store::{JobSlot, NodeRow, NodeSlot, Store},
};

/// When something became known. A plan rests on a state, and on what was claimed beside it, which has no index: it is
/// counted by a clock of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct KnownAt {
    pub index: Index,
    pub clock: u64,
}

impl KnownAt {
    /// Whether a plan that knew as much did not know of this.
    pub fn is_newer_than(self, known: Self) -> bool {
        self.index > known.index || self.clock > known.clock
    }

    pub fn latest(self, other: Self) -> Self {
        Self { index: self.index.max(other.index), clock: self.clock.max(other.clock) }
    }
}

/// Nodes on which there may be more capacity than before.
#[derive(Debug, Default)]
pub(super) struct FreedNodes {
    at: BTreeMap<NodeSlot, KnownAt>,
    by_index: BTreeSet<(Index, NodeSlot)>,
}

impl FreedNodes {
    pub fn note(&mut self, node: NodeSlot, moment: KnownAt) {
        let before = self.at.get(&node).copied().unwrap_or_default();
        let now = before.latest(moment);
        self.by_index.remove(&(before.index, node));
        self.by_index.insert((now.index, node));
        self.at.insert(node, now);
    }

    /// When there came capacity on a node last.
    pub fn at(&self, node: NodeSlot) -> KnownAt {
        self.at.get(&node).copied().unwrap_or_default()
    }

    /// The nodes of which a plan that knew as much may not have known.
    pub fn since(&self, known: KnownAt) -> impl Iterator<Item = NodeSlot> {
        let since = self.by_index.range((known.index, NodeSlot(0))..).map(|(_, node)| *node);
        since.filter(move |node| self.at(*node).is_newer_than(known))
    }
}

/// Work that may be preempted, by its priority.
#[derive(Debug, Default)]
pub(super) struct PlacedWork {
    /// When it was placed last.
    at: BTreeMap<u8, Index>,
    /// What no queue was informed of yet: on how old a state it was planned.
    planned_on: BTreeMap<u8, Index>,
    last: Option<(JobSlot, Index)>,
}

impl PlacedWork {
    /// Whether the last that was asked for was of another job, or placed by another entry.
    pub fn is_new(&mut self, job: JobSlot, at: Index) -> bool {
        self.last.replace((job, at)) != Some((job, at))
    }

    pub fn note(&mut self, priority: u8, at: Index, planned_on: Index) {
        self.at.insert(priority, at);
        let oldest = self.planned_on.entry(priority).or_insert(planned_on);
        *oldest = planned_on.min(*oldest);
    }

    /// When some of a priority up to this one was placed last.
    pub fn up_to(&self, priority: u8) -> Option<Index> {
        self.at.range(..=priority).map(|(_, at)| *at).max()
    }

    /// Whether some of a priority up to this one had been claimed already when a plan was made on a state of this index, of
    /// what no queue was informed of.
    pub fn was_claimed(&self, priority: u8, known: Index) -> bool {
        self.planned_on.range(..=priority).any(|(_, planned_on)| *planned_on <= known)
    }

    /// Whether there is any that no queue was informed of.
    pub fn is_changed(&self) -> bool {
        !self.planned_on.is_empty()
    }

    /// The queues were informed.
    pub fn mark_notified(&mut self) {
        self.planned_on.clear();
    }
}

/// Capacity on a node that is meant for one evaluation until it is planned: others of its shape need not be planned for it.
pub(super) type Promise = (NodeSlot, Resources);

/// All promises.
#[derive(Debug, Default)]
pub(super) struct PromisedCapacity(BTreeMap<NodeSlot, NodePromises>);

#[derive(Debug, Default)]
struct NodePromises {
    sum: Resources,
    promises: usize,
    /// Others could have had that capacity.
    turned_away: bool,
}

impl PromisedCapacity {
    /// Promises capacity for as many as there is capacity for, and `count` at most. None when there is none left.
    pub fn make(&mut self, store: &Store, node: NodeSlot, one: Resources, count: u32) -> Option<Promise> {
        let on_node = self.0.entry(node).or_default();
        let free = store.nodes().row(node).map_or(Resources::ZERO, NodeRow::free).minus(on_node.sum);
        let many = times_in(one, free).min(count.max(1));
        if many == 0 {
            on_node.turned_away = true;
            return None;
        }
        let available = times(one, many);
        on_node.sum = on_node.sum.plus(available);
        on_node.promises += 1;
        Some((node, available))
    }

    /// Ends a promise. Whether somebody was turned away for its sake, and it was the last one of the node.
    pub fn end(&mut self, (node, available): Promise) -> bool {
        let Some(on_node) = self.0.get_mut(&node) else { return false };
        on_node.sum = on_node.sum.minus(available);
        on_node.promises -= 1;
        let is_last = on_node.promises == 0;
        is_last && self.0.remove(&node).is_some_and(|on_node| on_node.turned_away)
    }
}

fn times_in(one: Resources, available: Resources) -> u32 {
    let in_one = |one: u32, available: u32| available.checked_div(one).unwrap_or(u32::MAX);
    let cpu_and_memory =
        in_one(one.cpu_mhz, available.cpu_mhz).min(in_one(one.memory_mb, available.memory_mb));
    cpu_and_memory.min(in_one(one.disk_mb, available.disk_mb))
}

fn times(one: Resources, many: u32) -> Resources {
    Resources {
        cpu_mhz: one.cpu_mhz.saturating_mul(many),
        memory_mb: one.memory_mb.saturating_mul(many),
        disk_mb: one.disk_mb.saturating_mul(many),
    }
}

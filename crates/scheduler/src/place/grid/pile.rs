//! A pile: nodes of one capacity that have exactly the same capacity left.

use std::{collections::BTreeMap, ops::Bound};

use berth_model::{Index, resources::Resources, store::NodeSlot};

use super::shelf::PilePosition;
use crate::place::classes::ClassId;

/// A node's rank among equals: the one that registered first is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRank {
    /// Its registration.
    pub registered: Index,
    /// Where it is in the store.
    pub slot: NodeSlot,
}

/// What the nodes of one pile have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PileKind {
    /// Whose shelves they lie on.
    pub group: u32,
    /// What each of them has.
    pub capacity: Resources,
    /// What each of them has left.
    pub free: Resources,
}

/// Nodes of one kind, with their classes.
#[derive(Debug)]
pub struct Pile {
    /// What they have in common.
    pub kind: PileKind,
    /// Where the pile lies.
    pub position: PilePosition,
    first: Option<(NodeRank, ClassId)>,
    /// Most piles are of one node, and need no more memory than this.
    others: BTreeMap<NodeRank, ClassId>,
}

impl Pile {
    /// A pile of one node.
    pub fn new(kind: PileKind, position: PilePosition, first: (NodeRank, ClassId)) -> Self {
        Self { kind, position, first: Some(first), others: BTreeMap::new() }
    }

    /// Whether no node is left.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// All nodes, the first to register first.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeRank, ClassId)> {
        self.first.into_iter().chain(self.others.iter().map(|(rank, class)| (*rank, *class)))
    }

    /// The same after a seat.
    pub fn after(&self, rank: NodeRank) -> impl Iterator<Item = (NodeRank, ClassId)> {
        let others = self.others.range((Bound::Excluded(rank), Bound::Unbounded));
        others.map(|(rank, class)| (*rank, *class))
    }

    /// Adds a node.
    pub fn add(&mut self, node: (NodeRank, ClassId)) {
        let last = match &mut self.first {
            Some(first) if node.0 < first.0 => std::mem::replace(first, node),
            _ => node,
        };
        self.others.insert(last.0, last.1);
    }

    /// Removes a node.
    pub fn remove(&mut self, rank: NodeRank) {
        if self.first.is_some_and(|(first, _)| first == rank) {
            self.first = self.others.pop_first();
        } else {
            self.others.remove(&rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_in_the_order_of_their_registration() {
        let node = |at: u32| {
            (NodeRank { registered: Index(u64::from(at)), slot: NodeSlot(at) }, ClassId::nth(at as usize % 2))
        };
        let room = Resources { cpu_mhz: 1, memory_mb: 1, disk_mb: 1 };
        let kind = PileKind { group: 0, capacity: room, free: room };
        let mut pile = Pile::new(kind, PilePosition::default(), node(5));
        [7, 3, 4].into_iter().for_each(|at| pile.add(node(at)));
        assert_eq!(pile.nodes().collect::<Vec<_>>(), [3, 4, 5, 7].map(node));
        assert_eq!(pile.after(node(4).0).collect::<Vec<_>>(), [5, 7].map(node));
        [3, 5].into_iter().for_each(|at| pile.remove(node(at).0));
        assert_eq!(pile.nodes().collect::<Vec<_>>(), [4, 7].map(node));
        pile.remove(node(4).0);
        pile.remove(node(7).0);
        assert!(pile.is_empty());
    }
}

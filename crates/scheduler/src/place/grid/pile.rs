//! A pile: nodes of one capacity that have exactly the same room left.

use std::{collections::BTreeMap, ops::Bound};

use berth_model::{Index, resources::Resources, store::NodeSlot};

use super::shelf::Place;
use crate::place::classes::ClassId;

/// A node's place among equals: the one that registered first is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Its registration.
    pub registered: Index,
    /// Where it is in the store.
    pub slot: NodeSlot,
}

/// What the nodes of one pile have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
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
    pub kind: Kind,
    /// Where the pile lies.
    pub place: Place,
    first: Option<(Seat, ClassId)>,
    /// Most piles are of one node, and need no more memory than this.
    others: BTreeMap<Seat, ClassId>,
}

impl Pile {
    /// A pile of one node.
    pub fn new(kind: Kind, place: Place, first: (Seat, ClassId)) -> Self {
        Self { kind, place, first: Some(first), others: BTreeMap::new() }
    }

    /// Whether no node is left.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// All nodes, the first to register first.
    pub fn nodes(&self) -> impl Iterator<Item = (Seat, ClassId)> {
        self.first.into_iter().chain(self.others.iter().map(|(seat, class)| (*seat, *class)))
    }

    /// The same after a seat.
    pub fn after(&self, seat: Seat) -> impl Iterator<Item = (Seat, ClassId)> {
        let others = self.others.range((Bound::Excluded(seat), Bound::Unbounded));
        others.map(|(seat, class)| (*seat, *class))
    }

    /// One more node.
    pub fn add(&mut self, node: (Seat, ClassId)) {
        let last = match &mut self.first {
            Some(first) if node.0 < first.0 => std::mem::replace(first, node),
            _ => node,
        };
        self.others.insert(last.0, last.1);
    }

    /// One node less.
    pub fn remove(&mut self, seat: Seat) {
        if self.first.is_some_and(|(first, _)| first == seat) {
            self.first = self.others.pop_first();
        } else {
            self.others.remove(&seat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_in_the_order_of_their_registration() {
        let node = |at: u32| {
            (Seat { registered: Index(u64::from(at)), slot: NodeSlot(at) }, ClassId::nth(at as usize % 2))
        };
        let room = Resources { cpu_mhz: 1, memory_mb: 1, disk_mb: 1 };
        let kind = Kind { group: 0, capacity: room, free: room };
        let mut pile = Pile::new(kind, Place::default(), node(5));
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

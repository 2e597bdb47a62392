//! A pile: nodes of one class and capacity that have exactly the same room left.

use std::{collections::BTreeSet, ops::Bound};

use berth_model::{Index, resources::Resources, store::NodeSlot};

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
    /// Their class.
    pub class: ClassId,
    /// What each of them has.
    pub capacity: Resources,
    /// What each of them has left.
    pub free: Resources,
}

/// Nodes of one kind.
#[derive(Debug)]
pub struct Pile {
    /// What they have in common.
    pub kind: Kind,
    /// The size of their capacity.
    pub size: u32,
    /// How often it has been another pile before.
    pub serial: u32,
    first: Option<Seat>,
    /// Most piles are of one node, and need no more memory than this.
    others: BTreeSet<Seat>,
}

impl Pile {
    /// A pile of one node.
    pub fn new(kind: Kind, size: u32, first: Seat) -> Self {
        Self { kind, size, serial: 0, first: Some(first), others: BTreeSet::new() }
    }

    /// Makes another pile of an empty one.
    pub fn open(&mut self, kind: Kind, size: u32, first: Seat) {
        *self = Self { serial: self.serial.wrapping_add(1), ..Self::new(kind, size, first) };
    }

    /// Whether no node is left.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// All nodes, the first to register first.
    pub fn nodes(&self) -> impl Iterator<Item = Seat> {
        self.first.into_iter().chain(self.others.iter().copied())
    }

    /// The same after a seat.
    pub fn after(&self, seat: Seat) -> impl Iterator<Item = Seat> {
        self.others.range((Bound::Excluded(seat), Bound::Unbounded)).copied()
    }

    /// One more node.
    pub fn add(&mut self, seat: Seat) {
        let first = self.first.get_or_insert(seat);
        if *first != seat {
            self.others.insert(seat.max(*first));
            *first = seat.min(*first);
        }
    }

    /// One node less.
    pub fn remove(&mut self, seat: Seat) {
        if self.first == Some(seat) {
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
        let seat = |at: u32| Seat { registered: Index(u64::from(at)), slot: NodeSlot(at) };
        let room = Resources { cpu_mhz: 1, memory_mb: 1, disk_mb: 1 };
        let kind = Kind { class: ClassId::nth(0), capacity: room, free: room };
        let mut pile = Pile::new(kind, 0, seat(5));
        [7, 3, 4].into_iter().for_each(|at| pile.add(seat(at)));
        let slots = |seats: &mut dyn Iterator<Item = Seat>| seats.map(|seat| seat.slot.0).collect::<Vec<_>>();
        assert_eq!(slots(&mut pile.nodes()), [3, 4, 5, 7]);
        assert_eq!(slots(&mut pile.after(seat(4))), [5, 7]);
        [3, 5].into_iter().for_each(|at| pile.remove(seat(at)));
        assert_eq!(slots(&mut pile.nodes()), [4, 7]);
        [7, 4].into_iter().for_each(|at| pile.remove(seat(at)));
        assert!(pile.is_empty());
    }
}

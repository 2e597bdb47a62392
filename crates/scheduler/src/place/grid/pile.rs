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

/// Where a pile lies on one of its shelves.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub shelf: u32,
    pub row: u8,
    pub column: u8,
    /// In its cell.
    pub position: u32,
}

/// Nodes of one kind.
#[derive(Debug)]
pub struct Pile {
    /// What they have in common.
    pub kind: Kind,
    /// On the shelf of its size, and on that of its class.
    pub(super) places: [Place; 2],
    first: Seat,
    /// Most piles are of one node, and need no more memory than this.
    others: BTreeSet<Seat>,
}

impl Pile {
    pub(super) fn new(kind: Kind, first: Seat, places: [Place; 2]) -> Self {
        Self { kind, places, first, others: BTreeSet::new() }
    }

    /// All nodes, the first to register first.
    pub fn nodes(&self) -> impl Iterator<Item = Seat> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// The same after a seat.
    pub fn after(&self, seat: Seat) -> impl Iterator<Item = Seat> {
        self.others.range((Bound::Excluded(seat), Bound::Unbounded)).copied()
    }

    pub(super) fn add(&mut self, seat: Seat) {
        let last = self.first.max(seat);
        self.first = self.first.min(seat);
        self.others.insert(last);
    }

    /// Whether any node is left.
    pub(super) fn remove(&mut self, seat: Seat) -> bool {
        if seat != self.first {
            return self.others.remove(&seat);
        }
        let next = self.others.pop_first();
        self.first = next.unwrap_or(self.first);
        next.is_some()
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
        let place = Place { shelf: 0, row: 0, column: 0, position: 0 };
        let mut pile = Pile::new(kind, seat(5), [place; 2]);
        [7, 3, 4].into_iter().for_each(|at| pile.add(seat(at)));
        let slots = |seats: &mut dyn Iterator<Item = Seat>| seats.map(|seat| seat.slot.0).collect::<Vec<_>>();
        let all = |pile: &Pile| slots(&mut pile.nodes());
        assert_eq!(all(&pile), [3, 4, 5, 7]);
        assert_eq!(slots(&mut pile.after(seat(4))), [5, 7]);
        assert!(pile.remove(seat(3)) && pile.remove(seat(5)));
        assert_eq!(all(&pile), [4, 7]);
        assert!(pile.remove(seat(7)));
        assert!(!pile.remove(seat(4)));
    }
}

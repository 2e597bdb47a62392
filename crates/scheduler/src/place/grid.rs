//! Nodes by the room they have left, so that the best for any ask is found while few are looked at.
//!
//! Nodes of one class and capacity with exactly the same room left form one **pile**: an idle cluster is a pile a class.
//! A pile stands on two **shelves**: among all nodes of about its capacity, and among those that are of its class too.
//! On a shelf, piles lie in cells by their share of free cpu and free memory.

mod pile;
mod shelf;
mod size;

use berth_model::store::NodeSlot;
use rustc_hash::FxHashMap;

use self::shelf::Bins;
pub use self::{
    pile::{Kind, Pile, Seat},
    shelf::{Entry, Shelf, bin},
    size::{Size, Sizes},
};
use super::classes::ClassId;
use crate::scores::Powers;

/// All nodes on which something may be placed.
#[derive(Debug, Default)]
pub struct Grid {
    sizes: Sizes,
    shelves: Vec<Shelf>,
    /// The shelf of all nodes of a size.
    of_size: Vec<u32>,
    /// The shelves of a class, each with its size.
    of_class: Vec<Vec<(u32, u32)>>,
    piles: Vec<Pile>,
    unused: Vec<u32>,
    by_kind: FxHashMap<Kind, u32>,
    /// The pile of each node and its seat there, by slot.
    nodes: Vec<Option<(u32, Seat)>>,
}

impl Grid {
    /// A node is of this kind now, or of none because nothing may be placed on it.
    pub fn set(&mut self, slot: NodeSlot, now: Option<(Kind, Seat)>) {
        let at = slot.0 as usize;
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, None);
        }
        if let Some((pile, seat)) = self.nodes[at] {
            if now == Some((self.piles[pile as usize].kind, seat)) {
                return;
            }
            self.take(pile, seat);
        }
        self.nodes[at] = now.map(|(kind, seat)| (self.put(kind, seat), seat));
    }

    /// The pile of a node and its seat there; none when nothing may be placed on it.
    pub fn pile_of(&self, slot: NodeSlot) -> Option<(u32, Seat)> {
        *self.nodes.get(slot.0 as usize)?
    }

    /// A pile.
    pub fn pile(&self, pile: u32) -> &Pile {
        &self.piles[pile as usize]
    }

    /// About which capacities nodes have.
    pub fn sizes(&self) -> &[Size] {
        self.sizes.all()
    }

    /// A shelf.
    pub fn shelf(&self, shelf: u32) -> &Shelf {
        &self.shelves[shelf as usize]
    }

    /// The shelf of each size, by size.
    pub fn shelves(&self) -> &[u32] {
        &self.of_size
    }

    /// The shelves of a class.
    pub fn shelves_of(&self, class: ClassId) -> impl Iterator<Item = u32> {
        self.of_class.get(class.at()).into_iter().flatten().map(|(_, shelf)| *shelf)
    }

    fn put(&mut self, kind: Kind, seat: Seat) -> u32 {
        if let Some(pile) = self.by_kind.get(&kind) {
            self.piles[*pile as usize].add(seat);
            return *pile;
        }
        let size = self.sizes.size_of(kind.capacity);
        let shelves = [self.shelf_of_size(size), self.shelf_of_class(kind.class, size)];
        let id = self.unused.pop().unwrap_or_else(|| {
            u32::try_from(self.piles.len())
                .expect("a pile has a node, and there are fewer than 2^32 of these")
        });
        let entry = Entry { kind, pile: id, powers: Powers::of(kind.free, kind.capacity) };
        let bins = Bins::of(kind);
        let places = shelves.map(|shelf| self.shelves[shelf as usize].put(shelf, bins, entry));
        let pile = Pile::new(kind, seat, places);
        match self.piles.get_mut(id as usize) {
            Some(unused) => *unused = pile,
            None => self.piles.push(pile),
        }
        self.by_kind.insert(kind, id);
        id
    }

    fn take(&mut self, id: u32, seat: Seat) {
        let pile = &mut self.piles[id as usize];
        if pile.remove(seat) {
            return;
        }
        let (kind, places) = (pile.kind, pile.places);
        for (level, place) in places.into_iter().enumerate() {
            if let Some(moved) = self.shelves[place.shelf as usize].take(place) {
                self.piles[moved as usize].places[level].position = place.position;
            }
        }
        self.by_kind.remove(&kind);
        self.unused.push(id);
    }

    fn shelf_of_size(&mut self, size: u32) -> u32 {
        if let Some(shelf) = self.of_size.get(size as usize) {
            return *shelf;
        }
        let shelf = self.add_shelf(Shelf::fine(size));
        self.of_size.push(shelf);
        shelf
    }

    fn shelf_of_class(&mut self, class: ClassId, size: u32) -> u32 {
        let at = class.at();
        if at >= self.of_class.len() {
            self.of_class.resize(at + 1, Vec::new());
        }
        if let Some((_, shelf)) = self.of_class[at].iter().find(|(of, _)| *of == size) {
            return *shelf;
        }
        let shelf = self.add_shelf(Shelf::coarse(size));
        self.of_class[at].push((size, shelf));
        shelf
    }

    fn add_shelf(&mut self, shelf: Shelf) -> u32 {
        self.shelves.push(shelf);
        u32::try_from(self.shelves.len() - 1).expect("fewer than 2^32 shelves")
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{Index, resources::Resources};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn kind(class: usize, free: u32) -> Kind {
        let capacity = Resources { cpu_mhz: 100 + class as u32, memory_mb: 100, disk_mb: 0 };
        Kind {
            class: ClassId::nth(class),
            capacity,
            free: Resources { cpu_mhz: free, memory_mb: 99 - free, disk_mb: 0 },
        }
    }

    /// The nodes of a shelf with their kinds, by slot.
    fn on_shelf(grid: &Grid, shelf: u32) -> Vec<(u32, Kind)> {
        let shelf = grid.shelf(shelf);
        let cells = (0..shelf.bins()).flat_map(|row| (0..shelf.bins()).map(move |column| (row, column)));
        let entries = cells.flat_map(|(row, column)| {
            let is_noted = shelf.rows >> row & shelf.columns(row) >> column & 1 == 1;
            assert_eq!(is_noted, !shelf.cell(row, column).is_empty());
            shelf.cell(row, column)
        });
        let nodes = |entry: &Entry| {
            grid.pile(entry.pile).nodes().map(|seat| (seat.slot.0, entry.kind)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = entries.flat_map(nodes).collect();
        all.sort_by_key(|(slot, _)| *slot);
        all
    }

    proptest! {
        #[test]
        fn every_node_is_on_the_shelf_of_its_size_and_on_that_of_its_class(
            moves in vec((0..9_u32, proptest::option::of((0..3_usize, 0..100_u32))), 1..80),
        ) {
            let mut grid = Grid::default();
            let mut expected = std::collections::BTreeMap::new();
            for (slot, now) in moves {
                let now = now.map(|(class, free)| kind(class, free));
                let seat = Seat { registered: Index(1), slot: NodeSlot(slot) };
                grid.set(NodeSlot(slot), now.map(|kind| (kind, seat)));
                expected.remove(&slot);
                expected.extend(now.map(|kind| (slot, kind)));
            }
            let all: Vec<_> = expected.clone().into_iter().collect();
            prop_assert!(grid.shelves().len() <= 1, "the capacities are of one size");
            let found: Vec<_> = grid.shelves().iter().flat_map(|shelf| on_shelf(&grid, *shelf)).collect();
            prop_assert_eq!(found, all);
            for class in (0..3).map(ClassId::nth) {
                let found: Vec<_> = grid.shelves_of(class).flat_map(|shelf| on_shelf(&grid, shelf)).collect();
                let of_class = |(_, kind): &(u32, Kind)| kind.class == class;
                prop_assert_eq!(found, expected.clone().into_iter().filter(of_class).collect::<Vec<_>>());
            }
        }
    }
}

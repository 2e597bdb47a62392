//! Nodes by the room they have left, so that the best for any ask is found while few are looked at.
//!
//! Nodes of one class and capacity with exactly the same room left form one **pile**: an idle cluster is a pile a class.
//! Piles lie on **shelves**, by their share of free cpu and free memory: a shelf for all nodes of about the same
//! capacity, and once that is of use, a shelf for those that are of the same class too.

mod pile;
mod shelf;
mod shelves;
mod size;

use berth_model::store::NodeSlot;
use rustc_hash::FxHashMap;

pub use self::{
    pile::{Kind, Pile, Seat},
    shelf::{Entry, Shelf, bin},
    size::Size,
};
use self::{shelves::Shelves, size::Sizes};
use super::classes::ClassId;

/// All nodes on which something may be placed.
#[derive(Debug, Default)]
pub struct Grid {
    sizes: Sizes,
    /// Those of no nodes wait to be used again.
    piles: Vec<Pile>,
    unused: Vec<u32>,
    by_kind: FxHashMap<Kind, u32>,
    /// The pile of each node and its seat there, by slot.
    nodes: Vec<Option<(u32, Seat)>>,
    /// The shelves of all nodes.
    wide: Shelves,
    /// The shelves of each class.
    narrow: Shelves,
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

    /// Brings the shelves of all nodes up to date; those of classes when they are asked for.
    pub fn arrange(&mut self) {
        self.wide.arrange(&self.piles, |_| 0);
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

    /// The shelves of all nodes.
    pub fn wide(&self) -> &[Shelf] {
        self.wide.all()
    }

    /// The shelves of classes.
    pub fn narrow(&self) -> &[Shelf] {
        self.narrow.all()
    }

    /// Which shelves of classes those of some classes are.
    pub fn shelves_of(&mut self, classes: &[ClassId]) -> impl Iterator<Item = u32> {
        self.narrow.arrange(&self.piles, |kind| kind.class.at());
        classes.iter().flat_map(|class| self.narrow.of(class.at())).copied()
    }

    fn put(&mut self, kind: Kind, seat: Seat) -> u32 {
        if let Some(pile) = self.by_kind.get(&kind) {
            self.piles[*pile as usize].add(seat);
            return *pile;
        }
        let size = self.sizes.size_of(kind.capacity);
        let id = match self.unused.pop() {
            Some(id) => {
                self.piles[id as usize].open(kind, size, seat);
                id
            }
            None => {
                self.piles.push(Pile::new(kind, size, seat));
                u32::try_from(self.piles.len() - 1).expect("no more piles than nodes")
            }
        };
        self.by_kind.insert(kind, id);
        self.note(id);
        id
    }

    fn take(&mut self, id: u32, seat: Seat) {
        let pile = &mut self.piles[id as usize];
        pile.remove(seat);
        if pile.is_empty() {
            self.by_kind.remove(&pile.kind);
            self.unused.push(id);
            self.note(id);
        }
    }

    fn note(&mut self, pile: u32) {
        self.wide.note(pile);
        self.narrow.note(pile);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_model::{Index, resources::Resources};
    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    fn kind(class: usize, free: u32) -> Kind {
        let resources = |cpu_mhz, memory_mb| Resources { cpu_mhz, memory_mb, disk_mb: 0 };
        let capacity = resources(if class == 2 { 200 } else { 100 }, 100);
        Kind { class: ClassId::nth(class), capacity, free: resources(free, 99 - free) }
    }

    /// The nodes of some shelves with their kinds.
    fn on<'a>(grid: &Grid, shelves: impl IntoIterator<Item = &'a Shelf>) -> BTreeMap<u32, Kind> {
        let mut all = BTreeMap::new();
        for shelf in shelves {
            for (row, column) in (0..shelf.bins()).flat_map(|row| (0..shelf.bins()).map(move |c| (row, c))) {
                let is_noted = shelf.rows >> row & shelf.columns(row) >> column & 1 == 1;
                assert_eq!(is_noted, !shelf.cell(row, column).is_empty());
                for entry in shelf.cell(row, column) {
                    let nodes = grid.pile(entry.pile).nodes().map(|seat| seat.slot.0);
                    nodes.for_each(|slot| assert_eq!(all.insert(slot, entry.kind), None));
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn every_node_is_on_one_wide_shelf_and_on_one_of_its_class(
            moves in vec((0..60_u32, option::of((0..3_usize, 0..100_u32)), 0..20_u8), 1..200),
        ) {
            let mut grid = Grid::default();
            let mut expected = BTreeMap::new();
            for (slot, now, arrange) in moves {
                let now = now.map(|(class, free)| kind(class, free));
                let seat = Seat { registered: Index(1), slot: NodeSlot(slot) };
                grid.set(NodeSlot(slot), now.map(|kind| (kind, seat)));
                expected.remove(&slot);
                expected.extend(now.map(|kind| (slot, kind)));
                match arrange {
                    0 => grid.arrange(),
                    1 => drop(grid.shelves_of(&[])),
                    _ => {}
                }
            }
            grid.arrange();
            prop_assert_eq!(&on(&grid, grid.wide()), &expected);
            for class in (0..3).map(ClassId::nth) {
                let shelves: Vec<u32> = grid.shelves_of(&[class]).collect();
                let found = on(&grid, shelves.iter().map(|shelf| &grid.narrow()[*shelf as usize]));
                expected.retain(|slot, kind| kind.class != class || found.get(slot) == Some(kind));
                prop_assert_eq!(found.len(), expected.values().filter(|kind| kind.class == class).count());
            }
        }
    }
}

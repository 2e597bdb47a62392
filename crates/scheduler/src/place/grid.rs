//! Nodes by the room they have left, so that the best for any ask is found while few are looked at.
//!
//! Nodes of one class and one capacity stand on one **shelf**. On it, nodes with exactly the same room left form one
//! **pile**: an idle cluster is one pile a shelf. Piles lie in cells by their share of free cpu and free memory. Cells
//! are narrow where little is free, because that is where the best fits are.

use std::{collections::BTreeSet, ops::Bound};

use berth_model::{Index, resources::Resources, store::NodeSlot};
use rustc_hash::FxHashMap;

use super::classes::ClassId;
use crate::scores::Powers;

/// Cells along each side of a shelf's grid.
pub const BINS: usize = 32;

/// A node's place among equals: the one that registered first is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Its registration.
    pub registered: Index,
    /// Where it is in the store.
    pub slot: NodeSlot,
}

/// Nodes of one class and one capacity.
#[derive(Debug)]
pub struct Shelf {
    /// What each of them has.
    pub capacity: Resources,
    /// Rows by free cpu that have piles, a bit each.
    pub rows: u32,
    cells: [Option<Box<Row>>; BINS],
}

/// The cells of one share of free cpu, by free memory.
#[derive(Debug, Default)]
struct Row {
    columns: u32,
    piles: [Vec<u32>; BINS],
}

/// Nodes of one shelf with the same room left.
#[derive(Debug)]
pub struct Pile {
    /// What is left.
    pub free: Resources,
    /// The same as powers of the shelf's capacity.
    pub powers: Powers,
    /// Tells this pile from one that has its place later.
    pub serial: u64,
    /// Where it stands.
    pub shelf: u32,
    nodes: BTreeSet<Seat>,
    /// Where it stands in its cell's list.
    position: usize,
}

impl Pile {
    /// The first node after a seat.
    pub fn after(&self, seat: Seat) -> Option<Seat> {
        self.nodes.range((Bound::Excluded(seat), Bound::Unbounded)).next().copied()
    }

    /// The node that registered first.
    pub fn first(&self) -> Option<Seat> {
        self.nodes.first().copied()
    }
}

/// All nodes on which something may be placed.
#[derive(Debug)]
pub struct Grid {
    shelves: Vec<Shelf>,
    by_kind: FxHashMap<(ClassId, Resources), u32>,
    of_class: FxHashMap<ClassId, Vec<u32>>,
    piles: Vec<Pile>,
    unused: Vec<u32>,
    by_room: FxHashMap<(u32, Resources), u32>,
    serial: u64,
    edges: [f64; BINS + 1],
}

impl Default for Grid {
    fn default() -> Self {
        Self {
            shelves: Vec::new(),
            by_kind: FxHashMap::default(),
            of_class: FxHashMap::default(),
            piles: Vec::new(),
            unused: Vec::new(),
            by_room: FxHashMap::default(),
            serial: 0,
            edges: std::array::from_fn(|at| 10_f64.powf((at as f64 / BINS as f64).powi(2))),
        }
    }
}

impl Grid {
    /// The shelf of a class and a capacity.
    pub fn shelf_of(&mut self, class: ClassId, capacity: Resources) -> u32 {
        match self.by_kind.get(&(class, capacity)) {
            Some(shelf) => *shelf,
            None => self.open_shelf(class, capacity),
        }
    }

    /// A node has this room left. Returns its pile.
    pub fn put(&mut self, shelf: u32, free: Resources, seat: Seat) -> u32 {
        let pile = match self.by_room.get(&(shelf, free)) {
            Some(pile) => *pile,
            None => self.open_pile(shelf, free),
        };
        self.piles[pile as usize].nodes.insert(seat);
        pile
    }

    /// A node has no longer the room of its pile left.
    pub fn take(&mut self, pile: u32, seat: Seat) {
        let nodes = &mut self.piles[pile as usize].nodes;
        nodes.remove(&seat);
        if nodes.is_empty() {
            self.close_pile(pile);
        }
    }

    /// The shelves of a class.
    pub fn shelves_of(&self, class: ClassId) -> &[u32] {
        self.of_class.get(&class).map_or(&[], Vec::as_slice)
    }

    /// A shelf.
    pub fn shelf(&self, shelf: u32) -> &Shelf {
        &self.shelves[shelf as usize]
    }

    /// A pile.
    pub fn pile(&self, pile: u32) -> &Pile {
        &self.piles[pile as usize]
    }

    /// The columns of a shelf's row that have piles, a bit each.
    pub fn columns(&self, shelf: u32, row: usize) -> u32 {
        self.shelves[shelf as usize].cells[row].as_ref().map_or(0, |row| row.columns)
    }

    /// The piles of a cell.
    pub fn cell(&self, shelf: u32, row: usize, column: usize) -> &[u32] {
        self.shelves[shelf as usize].cells[row].as_ref().map_or(&[], |row| &row.piles[column])
    }

    /// 10 to the power of the share at which a bin begins; the last one is where the last bin ends.
    pub fn edge(&self, bin: usize) -> f64 {
        self.edges[bin]
    }

    fn open_shelf(&mut self, class: ClassId, capacity: Resources) -> u32 {
        let shelf = u32::try_from(self.shelves.len()).expect("fewer than 2^32 shelves");
        self.shelves.push(Shelf { capacity, rows: 0, cells: Default::default() });
        self.by_kind.insert((class, capacity), shelf);
        self.of_class.entry(class).or_default().push(shelf);
        shelf
    }

    fn open_pile(&mut self, shelf: u32, free: Resources) -> u32 {
        self.serial += 1;
        let on = &mut self.shelves[shelf as usize];
        let (at, column) =
            (bin(free.cpu_mhz, on.capacity.cpu_mhz), bin(free.memory_mb, on.capacity.memory_mb));
        let row = on.cells[at].get_or_insert_default();
        on.rows |= 1 << at;
        row.columns |= 1 << column;
        let cell = &mut row.piles[column];
        let powers = Powers::of(free, on.capacity);
        let pile =
            Pile { free, powers, serial: self.serial, nodes: BTreeSet::new(), shelf, position: cell.len() };
        let id = match self.unused.pop() {
            Some(id) => {
                self.piles[id as usize] = pile;
                id
            }
            None => {
                self.piles.push(pile);
                u32::try_from(self.piles.len() - 1).expect("fewer than 2^32 piles")
            }
        };
        cell.push(id);
        self.by_room.insert((shelf, free), id);
        id
    }

    fn close_pile(&mut self, id: u32) {
        let Pile { free, shelf, position, .. } = self.piles[id as usize];
        let on = &mut self.shelves[shelf as usize];
        let (at, column) =
            (bin(free.cpu_mhz, on.capacity.cpu_mhz), bin(free.memory_mb, on.capacity.memory_mb));
        let row = on.cells[at].get_or_insert_default();
        let cell = &mut row.piles[column];
        cell.swap_remove(position);
        if let Some(moved) = cell.get(position) {
            self.piles[*moved as usize].position = position;
        } else if cell.is_empty() {
            row.columns &= !(1 << column);
            if row.columns == 0 {
                on.rows &= !(1 << at);
            }
        }
        self.by_room.remove(&(shelf, free));
        self.unused.push(id);
    }
}

/// The bin of an amount: quadratic, and never lower for more.
pub fn bin(amount: u32, capacity: u32) -> usize {
    if capacity == 0 {
        return 0;
    }
    let share = (f64::from(amount) / f64::from(capacity)).min(1.0);
    ((share.sqrt() * BINS as f64) as usize).min(BINS - 1)
}

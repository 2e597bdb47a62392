//! Best first: the nodes of some shelves in the exact order of their score for one ask.
//!
//! A step of the search stands for a row, a cell or a node, with the highest score that it may lead to. The best step
//! is taken until it is a node. What comes after that node is left for later, so that the next of a hundred like
//! asks goes on where the last one stopped.

use std::{cmp::Ordering, collections::BinaryHeap};

use berth_model::{resources::Resources, scheduling::Algorithm};

use super::grid::{BINS, Grid, Seat, bin};
use crate::scores::{Powers, bin_pack, bin_pack_bound};

/// Shelves among which one of the same capacity is looked for: powers cost more than a look.
const ALIKE_MAX: usize = 4;

/// A search that can be continued while nodes that it has not shown keep their room.
#[derive(Debug)]
pub struct Search {
    ask: Resources,
    algorithm: Algorithm,
    shelves: Vec<OnShelf>,
    steps: BinaryHeap<Step>,
}

/// What an ask means on one shelf.
#[derive(Debug, Clone, Copy)]
struct OnShelf {
    shelf: u32,
    ask: Powers,
    /// Nodes with room are in this row or a higher one, and in this column or a higher one.
    row_min: usize,
    column_min: usize,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    bound: f64,
    to: To,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Row {
        on: u32,
        row: u8,
    },
    Cell {
        on: u32,
        row: u8,
        column: u8,
    },
    /// A node, and the pile of which the next node is as good.
    Node(Seat, Option<(u32, u64)>),
}

impl Ord for Step {
    /// The greatest is taken first: the best score, what may still lead to as good a node, the first to register.
    fn cmp(&self, other: &Self) -> Ordering {
        self.bound.total_cmp(&other.bound).then_with(|| other.to.cmp(&self.to))
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Step {}

impl Search {
    /// A search among no nodes yet.
    pub fn new(algorithm: Algorithm, ask: Resources) -> Self {
        Self { ask, algorithm, shelves: Vec::new(), steps: BinaryHeap::new() }
    }

    /// Searches the nodes of a shelf too.
    pub fn add_shelf(&mut self, grid: &Grid, shelf: u32) {
        let capacity = grid.shelf(shelf).capacity;
        let on = u32::try_from(self.shelves.len()).expect("fewer than 2^32 shelves");
        let alike = self
            .shelves
            .iter()
            .rev()
            .take(ALIKE_MAX)
            .find(|other| grid.shelf(other.shelf).capacity == capacity);
        self.shelves.push(OnShelf {
            shelf,
            ask: alike.map_or_else(|| Powers::of(self.ask, capacity), |other| other.ask),
            row_min: bin(self.ask.cpu_mhz, capacity.cpu_mhz),
            column_min: bin(self.ask.memory_mb, capacity.memory_mb),
        });
        self.push_row(grid, on, self.best_bin(0));
    }

    /// Searches one more node.
    pub fn add_node(&mut self, score: f64, seat: Seat) {
        self.steps.push(Step { bound: score, to: To::Node(seat, None) });
    }

    /// The best node left, and its score.
    pub fn best(&mut self, grid: &Grid) -> Option<(f64, Seat)> {
        loop {
            let step = *self.steps.peek()?;
            match step.to {
                To::Node(seat, _) => return Some((step.bound, seat)),
                To::Row { on, row } => {
                    self.steps.pop();
                    let row = usize::from(row);
                    self.push_cell(grid, on, row, self.best_bin(0));
                    self.push_next_row(grid, on, row);
                }
                To::Cell { on, row, column } => {
                    self.steps.pop();
                    self.open(grid, on, usize::from(row), usize::from(column));
                }
            }
        }
    }

    /// Passes over the best node.
    pub fn skip_best(&mut self, grid: &Grid) {
        let Some(Step { bound, to: To::Node(seat, of) }) = self.steps.pop() else { return };
        let Some((id, serial)) = of else { return };
        let pile = grid.pile(id);
        if let Some(next) = pile.after(seat).filter(|_| pile.serial == serial) {
            self.steps.push(Step { bound, to: To::Node(next, of) });
        }
    }

    /// The nodes of a cell, and the way to the next one.
    fn open(&mut self, grid: &Grid, on: u32, row: usize, column: usize) {
        let OnShelf { shelf, ask, .. } = self.shelves[on as usize];
        for id in grid.cell(shelf, row, column) {
            let pile = grid.pile(*id);
            if self.ask.exceeds(pile.free).is_some() {
                continue;
            }
            let bound = bin_pack(self.algorithm, pile.powers, ask);
            let first = pile.first().map(|seat| To::Node(seat, Some((*id, pile.serial))));
            self.steps.extend(first.map(|to| Step { bound, to }));
        }
        match self.algorithm {
            Algorithm::BinPack => self.push_cell(grid, on, row, column + 1),
            Algorithm::Spread if column > 0 => self.push_cell(grid, on, row, column - 1),
            Algorithm::Spread => {}
        }
    }

    fn push_next_row(&mut self, grid: &Grid, on: u32, row: usize) {
        match self.algorithm {
            Algorithm::BinPack => self.push_row(grid, on, row + 1),
            Algorithm::Spread if row > 0 => self.push_row(grid, on, row - 1),
            Algorithm::Spread => {}
        }
    }

    /// The bin of the best scores among those from `min` on.
    fn best_bin(&self, min: usize) -> usize {
        match self.algorithm {
            Algorithm::BinPack => min,
            Algorithm::Spread => BINS - 1,
        }
    }

    /// The first row with piles from `start` on, in the direction of worse scores.
    fn push_row(&mut self, grid: &Grid, on: u32, start: usize) {
        let OnShelf { shelf, row_min, column_min, .. } = self.shelves[on as usize];
        if let Some(row) = self.next_bit(grid.shelf(shelf).rows, start, row_min) {
            let bound = self.bound(grid, on, row, self.best_bin(column_min));
            self.steps.push(Step { bound, to: To::Row { on, row: row as u8 } });
        }
    }

    /// The first cell with piles from column `start` on.
    fn push_cell(&mut self, grid: &Grid, on: u32, row: usize, start: usize) {
        let OnShelf { shelf, column_min, .. } = self.shelves[on as usize];
        if let Some(column) = self.next_bit(grid.columns(shelf, row), start, column_min) {
            let bound = self.bound(grid, on, row, column);
            self.steps.push(Step { bound, to: To::Cell { on, row: row as u8, column: column as u8 } });
        }
    }

    fn next_bit(&self, bits: u32, start: usize, min: usize) -> Option<usize> {
        let bit = match self.algorithm {
            Algorithm::BinPack => {
                let from = start.max(min);
                if from >= BINS {
                    return None;
                }
                let left = bits & (u32::MAX << from);
                (left != 0).then(|| left.trailing_zeros())
            }
            Algorithm::Spread => {
                let left = bits & (u32::MAX >> (BINS - 1 - start));
                (left != 0).then(|| u32::BITS - 1 - left.leading_zeros())
            }
        };
        bit.map(|bit| bit as usize).filter(|bit| *bit >= min)
    }

    /// The highest score in a cell, or in one that is further from where the search began.
    fn bound(&self, grid: &Grid, on: u32, row: usize, column: usize) -> f64 {
        let beyond = usize::from(self.algorithm == Algorithm::Spread);
        let best = Powers { cpu: grid.edge(row + beyond), memory: grid.edge(column + beyond) };
        bin_pack_bound(self.algorithm, best, self.shelves[on as usize].ask)
    }
}

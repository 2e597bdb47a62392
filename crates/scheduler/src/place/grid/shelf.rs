//! A shelf: piles in cells by their share of free cpu and free memory. Cells are narrow where little is free, because
//! that is where the best fits are.

use std::sync::LazyLock;

use super::pile::PileKind;
use crate::scores::Powers;

/// How many bins the finest shelf has along each side, as a power of two.
const FINEST_LOG2: u32 = 6;
/// Bins along each side of the finest shelf.
const BINS: usize = 1 << FINEST_LOG2;
/// Piles for each cell before cells are made smaller.
const CROWD: usize = 2;
/// Piles for which an emptied cell keeps memory.
const KEPT_MAX: usize = 16;

/// 10 to the power of the share at which each bin begins; the last one is where the last bin ends.
static EDGES: LazyLock<[f64; BINS + 1]> =
    LazyLock::new(|| std::array::from_fn(|at| 10_f64.powf((at as f64 / BINS as f64).powi(2))));

/// Piles of nodes of one size.
#[derive(Debug)]
pub struct Shelf {
    /// The size of its nodes.
    pub size: u32,
    /// Bins along each side, as a power of two: as many as the piles are worth.
    log2: u32,
    piles: usize,
    /// Rows by free cpu that have piles, a bit each.
    pub rows: u64,
    /// The same of the columns by free memory of each row.
    columns: Vec<u64>,
    /// Row by row.
    cells: Vec<Vec<PileEntry>>,
}

/// A pile in its cell, with all that decides whether it is worth a look.
#[derive(Debug, Clone, Copy)]
pub struct PileEntry {
    /// What its nodes have in common.
    pub kind: PileKind,
    /// Number of the pile.
    pub pile: u32,
    /// What is free as powers of the capacity.
    pub powers: Powers,
}

/// Where a pile lies.
#[derive(Debug, Clone, Copy, Default)]
pub struct PilePosition {
    /// Number of the shelf.
    pub shelf: u32,
    row: u8,
    column: u8,
    position: u32,
}

impl Shelf {
    /// An empty shelf of one cell.
    pub fn new(size: u32) -> Self {
        Self { size, log2: 0, piles: 0, rows: 0, columns: vec![0], cells: vec![Vec::new()] }
    }

    /// How many rows it has, and columns in each.
    pub fn bins(&self) -> usize {
        1 << self.log2
    }

    /// The row or the column of a bin of the finest shelf.
    pub fn at(&self, bin: usize) -> usize {
        bin >> (FINEST_LOG2 - self.log2)
    }

    /// 10 to the power of the share at which a row or a column begins; at [`Self::bins`] where the last one ends.
    pub fn edge(&self, at: usize) -> f64 {
        EDGES[at << (FINEST_LOG2 - self.log2)]
    }

    /// The columns of a row that have piles, a bit each.
    pub fn columns(&self, row: usize) -> u64 {
        self.columns[row]
    }

    /// The piles of a cell.
    pub fn cell(&self, row: usize, column: usize) -> &[PileEntry] {
        &self.cells[row << self.log2 | column]
    }

    /// Whether one more pile is worth smaller cells.
    pub fn is_crowded(&self) -> bool {
        self.log2 < FINEST_LOG2 && self.piles >= CROWD << (2 * self.log2)
    }

    /// Makes cells half as wide and half as high: all piles have other places then.
    pub fn refine(&mut self) {
        let entries: Vec<PileEntry> = self.cells.iter_mut().flat_map(std::mem::take).collect();
        let log2 = self.log2 + 1;
        *self = Self {
            log2,
            columns: vec![0; 1 << log2],
            cells: vec![Vec::new(); 1 << (2 * log2)],
            ..Self::new(self.size)
        };
        for entry in entries {
            self.put(0, entry);
        }
    }

    /// The place of each pile; `shelf` is the number of this one.
    pub fn positions(&self, shelf: u32) -> impl Iterator<Item = (u32, PilePosition)> {
        (0..).zip(&self.cells).flat_map(move |(cell, entries)| {
            let (row, column) = ((cell >> self.log2) as u8, (cell & (self.bins() - 1)) as u8);
            (0..)
                .zip(entries)
                .map(move |(position, entry)| (entry.pile, PilePosition { shelf, row, column, position }))
        })
    }

    /// Puts a pile into its cell; `shelf` is the number of this one.
    pub fn put(&mut self, shelf: u32, entry: PileEntry) -> PilePosition {
        let PileKind { capacity, free, .. } = entry.kind;
        let row = self.at(bin(free.cpu_mhz, capacity.cpu_mhz));
        let column = self.at(bin(free.memory_mb, capacity.memory_mb));
        self.piles += 1;
        self.rows |= 1 << row;
        self.columns[row] |= 1 << column;
        let cell = &mut self.cells[row << self.log2 | column];
        cell.push(entry);
        let position = u32::try_from(cell.len() - 1).expect("no more piles than nodes");
        PilePosition { shelf, row: row as u8, column: column as u8, position }
    }

    /// Takes a pile out of its cell. Returns the pile that now has its place.
    pub fn take(&mut self, PilePosition { row, column, position, .. }: PilePosition) -> Option<u32> {
        let (row, column) = (usize::from(row), usize::from(column));
        let cell = &mut self.cells[row << self.log2 | column];
        cell.swap_remove(position as usize);
        self.piles -= 1;
        if cell.is_empty() {
            if cell.capacity() > KEPT_MAX {
                *cell = Vec::new();
            }
            self.columns[row] &= !(1 << column);
            if self.columns[row] == 0 {
                self.rows &= !(1 << row);
            }
            return None;
        }
        cell.get(position as usize).map(|moved| moved.pile)
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

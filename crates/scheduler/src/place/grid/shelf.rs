//! A shelf: piles in cells by their share of free cpu and free memory. Cells are narrow where little is free, because
//! that is where the best fits are.

use std::sync::LazyLock;

use super::pile::{Kind, Place};
use crate::scores::Powers;

/// Bins along each side of the finest shelf.
pub const BINS: usize = 64;
/// What a shelf of one class, which has few piles, divides this by, as a power of two.
const COARSE_SHIFT: u32 = 2;
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
    /// Rows by free cpu that have piles, a bit each.
    pub rows: u64,
    shift: u32,
    cells: Vec<Option<Row>>,
}

/// The cells of one share of free cpu, by free memory.
#[derive(Debug)]
struct Row {
    columns: u64,
    cells: Box<[Vec<Entry>]>,
}

/// A pile in its cell, with all that tells whether it is worth a look.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What its nodes have in common.
    pub kind: Kind,
    /// Which it is.
    pub pile: u32,
    /// What is free as powers of the capacity.
    pub powers: Powers,
}

/// Where a kind belongs on the finest shelf.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bins {
    row: usize,
    column: usize,
}

impl Bins {
    pub fn of(Kind { capacity, free, .. }: Kind) -> Self {
        Self { row: bin(free.cpu_mhz, capacity.cpu_mhz), column: bin(free.memory_mb, capacity.memory_mb) }
    }
}

impl Shelf {
    /// For nodes of all classes.
    pub(super) fn fine(size: u32) -> Self {
        Self::new(size, 0)
    }

    /// For nodes of one class.
    pub(super) fn coarse(size: u32) -> Self {
        Self::new(size, COARSE_SHIFT)
    }

    fn new(size: u32, shift: u32) -> Self {
        Self { size, rows: 0, shift, cells: Vec::new() }
    }

    /// How many rows it has, and columns in each.
    pub fn bins(&self) -> usize {
        BINS >> self.shift
    }

    /// The row or the column of a bin of the finest shelf.
    pub fn at(&self, bin: usize) -> usize {
        bin >> self.shift
    }

    /// 10 to the power of the share at which a row or a column begins; at [`Self::bins`] where the last one ends.
    pub fn edge(&self, at: usize) -> f64 {
        EDGES[at << self.shift]
    }

    /// The columns of a row that have piles, a bit each.
    pub fn columns(&self, row: usize) -> u64 {
        self.row(row).map_or(0, |row| row.columns)
    }

    /// The piles of a cell.
    pub fn cell(&self, row: usize, column: usize) -> &[Entry] {
        self.row(row).map_or(&[], |row| &row.cells[column])
    }

    fn row(&self, row: usize) -> Option<&Row> {
        self.cells.get(row)?.as_ref()
    }

    /// Puts a pile into its cell; `shelf` is this one.
    pub(super) fn put(&mut self, shelf: u32, bins: Bins, entry: Entry) -> Place {
        let (row, column) = (self.at(bins.row), self.at(bins.column));
        let columns = self.bins();
        if row >= self.cells.len() {
            self.cells.resize_with(row + 1, || None);
        }
        let of_row = self.cells[row]
            .get_or_insert_with(|| Row { columns: 0, cells: (0..columns).map(|_| Vec::new()).collect() });
        self.rows |= 1 << row;
        of_row.columns |= 1 << column;
        let cell = &mut of_row.cells[column];
        cell.push(entry);
        let position = u32::try_from(cell.len() - 1).expect("fewer than 2^32 piles");
        Place { shelf, row: row as u8, column: column as u8, position }
    }

    /// Takes a pile out of its cell. Returns the pile that now is in its position.
    pub(super) fn take(&mut self, place: Place) -> Option<u32> {
        let (row, column) = (usize::from(place.row), usize::from(place.column));
        let of_row = self.cells[row].as_mut().expect("a pile lies in a row that is there");
        let cell = &mut of_row.cells[column];
        cell.swap_remove(place.position as usize);
        if cell.is_empty() {
            if cell.capacity() > KEPT_MAX {
                *cell = Vec::new();
            }
            of_row.columns &= !(1 << column);
            if of_row.columns == 0 {
                self.rows &= !(1 << row);
            }
            return None;
        }
        cell.get(place.position as usize).map(|moved| moved.pile)
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

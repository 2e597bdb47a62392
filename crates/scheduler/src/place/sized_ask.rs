//! What a search looks for: nodes of a zone with capacity for one ask, and how well each of them packs.

use berth_model::{resources::Resources, scheduling::Algorithm};

use super::{
    grid::{PileEntry, Shelf, Size, bin},
    requirements::Requirements,
};
use crate::scores::{Powers, bin_pack, bin_pack_bound};

/// One ask, and what it means on nodes of each size.
#[derive(Debug)]
pub struct SizedAsk<'a> {
    /// Which nodes are in which zone.
    pub requirements: &'a Requirements,
    ask: Resources,
    algorithm: Algorithm,
    sizes: Vec<AskOnSize>,
}

#[derive(Debug)]
struct AskOnSize {
    /// One that nodes of this size have, mostly that of all.
    capacity: Resources,
    /// The ask as powers of it.
    ask: Powers,
    /// The ask as powers of the capacity on which it scores highest.
    best: Powers,
    /// Nodes with capacity are in this bin of free cpu or a higher one, and in this bin of free memory or a higher one.
    row_min: usize,
    column_min: usize,
}

impl<'a> SizedAsk<'a> {
    /// Nothing is known of nodes yet.
    pub fn new(requirements: &'a Requirements, ask: Resources, algorithm: Algorithm) -> Self {
        Self { requirements, ask, algorithm, sizes: Vec::new() }
    }

    /// Learns what the ask means on nodes of these sizes.
    pub fn learn(&mut self, sizes: &[Size]) {
        self.sizes = sizes.iter().map(|size| self.on(size)).collect();
    }

    fn on(&self, Size { least, most }: &Size) -> AskOnSize {
        let ask = Powers::of(self.ask, *least);
        AskOnSize {
            capacity: *least,
            ask,
            best: match self.algorithm {
                Algorithm::BinPack => ask,
                Algorithm::Spread => Powers::of(self.ask, *most),
            },
            row_min: bin(self.ask.cpu_mhz, most.cpu_mhz),
            column_min: bin(self.ask.memory_mb, most.memory_mb),
        }
    }

    /// How well a node packs that has this much; none when it has no capacity.
    pub fn packing(&self, capacity: Resources, free: Resources) -> Option<f64> {
        if self.ask.exceeds(free).is_some() {
            return None;
        }
        let known = self.sizes.iter().find(|on| on.capacity == capacity);
        let ask = known.map_or_else(|| Powers::of(self.ask, capacity), |on| on.ask);
        Some(bin_pack(self.algorithm, Powers::of(free, capacity), ask))
    }

    /// The same of the nodes of a pile.
    pub fn packing_of(&self, size: u32, PileEntry { kind, powers, .. }: &PileEntry) -> Option<f64> {
        if self.ask.exceeds(kind.free).is_some() {
            return None;
        }
        let on = &self.sizes[size as usize];
        let ask = if on.capacity == kind.capacity { on.ask } else { Powers::of(self.ask, kind.capacity) };
        Some(bin_pack(self.algorithm, *powers, ask))
    }

    /// Where the best scores of a shelf are.
    pub fn start(&self, shelf: &Shelf) -> usize {
        match self.algorithm {
            Algorithm::BinPack => 0,
            Algorithm::Spread => shelf.bins() - 1,
        }
    }

    /// The row or column after this one in the direction of worse scores.
    pub fn after(&self, at: usize) -> Option<usize> {
        match self.algorithm {
            Algorithm::BinPack => Some(at + 1),
            Algorithm::Spread => at.checked_sub(1),
        }
    }

    /// The first row with piles from `start` on, and the highest score in it.
    pub fn row(&self, shelf: &Shelf, start: usize) -> Option<(usize, f64)> {
        let on = &self.sizes[shelf.size as usize];
        let row = self.next_bit(shelf.rows, start, shelf.at(on.row_min))?;
        let column = self.start(shelf).max(shelf.at(on.column_min));
        Some((row, self.bound(shelf, row, column)))
    }

    /// The first cell with piles from column `start` on, and the highest score in it.
    pub fn cell(&self, shelf: &Shelf, row: usize, start: usize) -> Option<(usize, f64)> {
        let on = &self.sizes[shelf.size as usize];
        let column = self.next_bit(shelf.columns(row), start, shelf.at(on.column_min))?;
        Some((column, self.bound(shelf, row, column)))
    }

    fn next_bit(&self, bits: u64, start: usize, min: usize) -> Option<usize> {
        let from = match self.algorithm {
            Algorithm::BinPack => bits & u64::MAX.checked_shl(start.max(min) as u32)?,
            Algorithm::Spread => bits & (u64::MAX >> (u64::BITS - 1 - start as u32)),
        };
        let bit = match self.algorithm {
            Algorithm::BinPack => from.trailing_zeros(),
            Algorithm::Spread => u64::BITS.wrapping_sub(1).wrapping_sub(from.leading_zeros()),
        } as usize;
        (from != 0 && bit >= min).then_some(bit)
    }

    /// The highest score in a cell, or in one that is further from where the search began.
    fn bound(&self, shelf: &Shelf, row: usize, column: usize) -> f64 {
        let beyond = usize::from(self.algorithm == Algorithm::Spread);
        let best = Powers { cpu: shelf.edge(row + beyond), memory: shelf.edge(column + beyond) };
        bin_pack_bound(self.algorithm, best, self.sizes[shelf.size as usize].best)
    }
}

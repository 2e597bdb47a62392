//! A block of nodes: what is free on each and what could be freed, in columns, so that one pass over a
//! block finds the nodes on which an ask may find capacity.
//!
//! Amounts are rounded to 24 bits here. What is asked for is taken for a little less, so that no rounding hides a node.

use super::bulk::{KINDS, ResourceVector};

/// Nodes of a block.
pub const BLOCK: usize = 64;
/// Less than this part of what is asked for is lost by rounding.
const ROUNDING: f32 = 1.0 / 1_048_576.0;
const CPU: usize = 0;
const MEMORY: usize = 1;
const DISK: usize = 2;
const DEVICES: usize = 3;
/// Cpu and memory.
const TOGETHER: usize = 4;

/// Amounts by kind, as in [`ResourceVector`].
pub type KindAmounts = [f32; KINDS];
/// Amounts of one kind by node.
type Column = [f32; BLOCK];

/// What is asked for, with amounts that are rounded down.
pub fn requested(bulk: ResourceVector) -> KindAmounts {
    bulk.amounts().map(|amount| amount * (1.0 - ROUNDING))
}

/// What is free on the nodes of a block, and what could be freed.
#[derive(Debug, Clone)]
pub struct Block {
    free: [Column; KINDS],
    /// By band.
    reaches: Vec<BandAmounts>,
}

/// What allocations of each node hold up to the priorities of a band.
#[derive(Debug, Clone)]
struct BandAmounts {
    sum: [Column; KINDS],
    /// The most that any of them holds of each kind.
    largest: [Column; KINDS],
}

/// The most of each kind that any node of a block has.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlockMaxima {
    free: KindAmounts,
    sum: KindAmounts,
    largest: KindAmounts,
}

impl BlockMaxima {
    /// Whether an ask may find capacity on some node, and how many must go for it at least.
    pub fn count(&self, requested: &KindAmounts) -> Option<usize> {
        let mut lacking = [0.0; KINDS];
        for (kind, lacking) in lacking.iter_mut().enumerate() {
            *lacking = positive(requested[kind] - self.free[kind]);
        }
        lacking[TOGETHER] = lacking[CPU] + lacking[MEMORY];
        let fits = lacking.iter().zip(&self.sum).all(|(lacking, sum)| lacking <= sum);
        let counts = lacking.iter().zip(&self.largest).filter(|(lacking, _)| **lacking > 0.0);
        let count = counts.map(|(lacking, largest)| lacking / largest).fold(1.0, most);
        fits.then_some(count.ceil() as usize)
    }
}

impl Block {
    /// Nodes on which nothing is free and nothing is held.
    pub fn empty(bands: usize) -> Self {
        Self { free: [[0.0; BLOCK]; KINDS], reaches: vec![BandAmounts::NONE; bands] }
    }

    /// What is free on a node, and for each band what allocations hold up to there: all together, and the most that any
    /// of them holds.
    pub fn set(
        &mut self,
        node: usize,
        free: ResourceVector,
        reaches: impl Iterator<Item = (ResourceVector, ResourceVector)>,
    ) {
        write(&mut self.free, node, free);
        for (reach, (sum, largest)) in self.reaches.iter_mut().zip(reaches) {
            write(&mut reach.sum, node, sum);
            write(&mut reach.largest, node, largest);
        }
    }

    /// One more band: so far nothing has its priorities.
    pub fn insert_band(&mut self, band: usize) {
        let below = band.checked_sub(1).map(|below| self.reaches[below].clone());
        self.reaches.insert(band, below.unwrap_or(BandAmounts::NONE));
    }

    /// The most that any node has, up to the priorities of a band.
    pub fn most(&self, band: usize) -> BlockMaxima {
        let of = |columns: &[Column; KINDS]| {
            columns.each_ref().map(|column| column.iter().copied().fold(0.0, most))
        };
        let reach = &self.reaches[band];
        BlockMaxima { free: of(&self.free), sum: of(&reach.sum), largest: of(&reach.largest) }
    }

    /// The first node from one on where an ask may find capacity when no more than `count` go of what a band can free.
    pub fn first_open(
        &self,
        from: usize,
        requested: &KindAmounts,
        band: usize,
        count: usize,
    ) -> Option<usize> {
        let short = self.shortfall(requested, &self.reaches[band], count as f32);
        short.iter().enumerate().skip(from).find(|(_, short)| **short <= 0.0).map(|(node, _)| node)
    }

    /// What each node is short of, of the kind of which it is short most.
    fn shortfall(&self, requested: &KindAmounts, reach: &BandAmounts, count: f32) -> Column {
        let mut short = [0.0; BLOCK];
        for (node, short) in short.iter_mut().enumerate() {
            let freed = |kind: usize| least(reach.sum[kind][node], count * reach.largest[kind][node]);
            let cpu = positive(requested[CPU] - self.free[CPU][node]);
            let memory = positive(requested[MEMORY] - self.free[MEMORY][node]);
            *short = most(
                most(cpu - freed(CPU), memory - freed(MEMORY)),
                cpu + memory - count * reach.largest[TOGETHER][node],
            );
        }
        for kind in [DISK, DEVICES].into_iter().filter(|kind| requested[*kind] > 0.0) {
            for (node, short) in short.iter_mut().enumerate() {
                let freed = least(reach.sum[kind][node], count * reach.largest[kind][node]);
                *short = most(*short, requested[kind] - self.free[kind][node] - freed);
            }
        }
        short
    }
}

impl BandAmounts {
    const NONE: Self = Self { sum: [[0.0; BLOCK]; KINDS], largest: [[0.0; BLOCK]; KINDS] };
}

fn write(columns: &mut [Column; KINDS], node: usize, bulk: ResourceVector) {
    columns.iter_mut().zip(bulk.amounts()).for_each(|(column, amount)| column[node] = amount);
}

// Written out: the library's own look for NaN, which is not here, and take three times as long.

fn positive(amount: f32) -> f32 {
    most(amount, 0.0)
}

fn most(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

fn least(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

//! How much each node could free at most, by priority: flat columns, and the most of any node of a block, so that a
//! search for the least loss looks into few blocks, and into few nodes of these.

use std::{cmp::Reverse, collections::BinaryHeap};

use berth_model::store::NodeSlot;
use fixedbitset::FixedBitSet;

use super::{bulk::Bulk, cost::Cost};

/// Nodes of a block.
const BLOCK: usize = 64;
/// Priorities that are kept apart; of more, neighbours are taken together.
const BANDS_MAX: usize = 16;

/// What could be freed on each node.
#[derive(Debug, Default)]
pub struct Reaches {
    /// The lowest priority of each band, ascending.
    priorities: Vec<u8>,
    nodes: Layer,
    blocks: Layer,
    /// Blocks of which a node has changed.
    changed: FixedBitSet,
}

/// Nodes, or blocks of nodes with the most that any node of theirs has.
#[derive(Debug, Default)]
struct Layer {
    free: Vec<Bulk>,
    /// By band.
    reaches: Vec<Vec<Reach>>,
}

/// What allocations hold up to the priorities of a band.
#[derive(Debug, Clone, Copy, Default)]
struct Reach {
    sum: Bulk,
    /// The most that any of them holds of each kind.
    largest: Bulk,
}

impl Reaches {
    /// What is free on a node, and what allocations of which priority hold there.
    pub fn set(&mut self, slot: NodeSlot, free: Bulk, held: &[(u8, Bulk)]) {
        let at = slot.0 as usize;
        self.grow(at + 1);
        held.iter().for_each(|(priority, _)| self.keep_apart(*priority));
        let mut reaches = [Reach::default(); BANDS_MAX];
        for (priority, bulk) in held {
            let reach = &mut reaches[self.band(*priority)];
            reach.sum = reach.sum.plus(*bulk);
            reach.largest = reach.largest.max(*bulk);
        }
        self.nodes.free[at] = free;
        let mut below = Reach::default();
        for (band, reach) in self.nodes.reaches.iter_mut().zip(reaches) {
            below = Reach { sum: below.sum.plus(reach.sum), largest: below.largest.max(reach.largest) };
            band[at] = below;
        }
        self.changed.insert(at / BLOCK);
    }

    /// Takes together what has changed of the blocks; to be done before anything is asked.
    pub fn settle(&mut self) {
        for block in self.changed.ones() {
            let end = self.nodes.free.len().min((block + 1) * BLOCK);
            let nodes = block * BLOCK..end;
            self.blocks.free[block] =
                self.nodes.free[nodes.clone()].iter().copied().fold(Bulk::default(), Bulk::max);
            for (of_blocks, of_nodes) in self.blocks.reaches.iter_mut().zip(&self.nodes.reaches) {
                of_blocks[block] = of_nodes[nodes.clone()].iter().copied().fold(Reach::default(), Reach::max);
            }
        }
        self.changed.clear();
    }

    /// The blocks on which an ask may find room, with the least that it may cost there; the cheapest first, then the
    /// first.
    pub fn blocks(&self, ask: Bulk, priority_max: u8) -> BinaryHeap<Reverse<(Cost, usize)>> {
        let blocks = 0..self.blocks.free.len();
        blocks.filter_map(|block| Some(Reverse((self.bound(block, ask, priority_max)?, block)))).collect()
    }

    /// The nodes of a block.
    pub fn nodes(&self, block: usize) -> impl Iterator<Item = NodeSlot> + use<> {
        let end = self.nodes.free.len().min((block + 1) * BLOCK);
        (block * BLOCK..end).filter_map(|at| Some(NodeSlot(u32::try_from(at).ok()?)))
    }

    /// Whether an ask may find room on a node at no higher cost than `most`.
    pub fn may_cost(&self, slot: NodeSlot, ask: Bulk, most: Cost) -> bool {
        let at = slot.0 as usize;
        let lacking = ask.minus(self.nodes.free[at]);
        for (priority, band) in self.priorities.iter().zip(&self.nodes.reaches) {
            let Reach { sum, largest } = band[at];
            match most.priority.cmp(priority) {
                std::cmp::Ordering::Less => return false,
                std::cmp::Ordering::Equal => {
                    return lacking.fits(sum) && lacking.fits(largest.times(most.count));
                }
                std::cmp::Ordering::Greater if lacking.fits(sum) => return true,
                std::cmp::Ordering::Greater => {}
            }
        }
        false
    }

    /// The least that an ask may cost on any node of a block; none when it cannot find room there.
    fn bound(&self, block: usize, ask: Bulk, priority_max: u8) -> Option<Cost> {
        let lacking = ask.minus(self.blocks.free[block]);
        let bands = self.priorities.iter().zip(&self.blocks.reaches);
        let mut bands = bands.take_while(|(priority, _)| **priority <= priority_max);
        let (priority, band) = bands.find(|(_, band)| lacking.fits(band[block].sum))?;
        Some(Cost { priority: *priority, count: lacking.count_of(band[block].largest) })
    }

    fn grow(&mut self, nodes: usize) {
        if nodes > self.nodes.free.len() {
            self.nodes.grow(nodes);
            self.blocks.grow(nodes.div_ceil(BLOCK));
            self.changed.grow(nodes.div_ceil(BLOCK));
        }
    }

    /// The band of a priority that is kept apart.
    fn band(&self, priority: u8) -> usize {
        self.priorities.partition_point(|lowest| *lowest <= priority).saturating_sub(1)
    }

    /// Makes a band for a priority, as long as there are few. So far nothing has that priority: up to there, there is
    /// as much as up to the next lower one.
    fn keep_apart(&mut self, priority: u8) {
        let Err(band) = self.priorities.binary_search(&priority) else { return };
        if self.priorities.len() < BANDS_MAX {
            self.priorities.insert(band, priority);
            self.nodes.insert(band);
            self.blocks.insert(band);
        } else if band == 0 {
            self.priorities[0] = priority;
        }
    }
}

impl Layer {
    fn grow(&mut self, len: usize) {
        self.free.resize(len, Bulk::default());
        self.reaches.iter_mut().for_each(|band| band.resize(len, Reach::default()));
    }

    fn insert(&mut self, band: usize) {
        let below = band.checked_sub(1).map(|below| self.reaches[below].clone());
        let none = || vec![Reach::default(); self.free.len()];
        let reaches = below.unwrap_or_else(none);
        self.reaches.insert(band, reaches);
    }
}

impl Reach {
    fn max(self, other: Self) -> Self {
        Self { sum: self.sum.max(other.sum), largest: self.largest.max(other.largest) }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::resources::Resources;

    use super::*;

    fn cpu(cpu_mhz: u32) -> Bulk {
        Bulk::of(Resources { cpu_mhz, ..Resources::ZERO }, 0)
    }

    fn cheapest(reaches: &mut Reaches, ask: u32, priority_max: u8) -> Option<(u8, usize, usize)> {
        reaches.settle();
        let Reverse((cost, block)) = reaches.blocks(cpu(ask), priority_max).pop()?;
        Some((cost.priority, cost.count, block))
    }

    #[test]
    fn a_block_costs_no_more_than_any_of_its_nodes() {
        let mut reaches = Reaches::default();
        reaches.set(NodeSlot(1), cpu(100), &[(30, cpu(200)), (20, cpu(300))]);
        reaches.set(NodeSlot(BLOCK as u32), cpu(0), &[(20, cpu(300)), (20, cpu(300))]);
        assert_eq!(cheapest(&mut reaches, 400, 50), Some((20, 1, 0)));
        assert_eq!(cheapest(&mut reaches, 500, 50), Some((20, 2, 1)));
        assert_eq!(cheapest(&mut reaches, 601, 50), None);
        reaches.set(NodeSlot(1), cpu(101), &[(30, cpu(500)), (20, cpu(300))]);
        assert_eq!(cheapest(&mut reaches, 601, 50), Some((30, 1, 0)));
        assert_eq!(cheapest(&mut reaches, 601, 29), None);
    }

    #[test]
    fn a_node_may_cost_what_is_enough_for_it() {
        let mut reaches = Reaches::default();
        reaches.set(NodeSlot(0), cpu(100), &[(40, cpu(500)), (20, cpu(100)), (20, cpu(200))]);
        let may = |ask, priority, count| reaches.may_cost(NodeSlot(0), cpu(ask), Cost { priority, count });
        assert!(may(300, 20, 1) && !may(301, 20, 1) && may(400, 20, 2) && !may(401, 20, 9));
        assert!(may(401, 40, 1) && may(300, 21, 0) && !may(300, 19, 9) && !may(901, 90, 9));
    }

    #[test]
    fn of_many_priorities_neighbours_are_taken_together() {
        let mut reaches = Reaches::default();
        let held: Vec<(u8, Bulk)> = (10..40).rev().map(|priority| (priority, cpu(1))).collect();
        reaches.set(NodeSlot(0), cpu(0), &held);
        assert_eq!(reaches.priorities.len(), BANDS_MAX);
        for ask in 1..=30 {
            let (priority, _, _) = cheapest(&mut reaches, ask, 100).unwrap();
            assert!(u32::from(priority) < 10 + ask, "{priority} for {ask}");
        }
        assert_eq!(cheapest(&mut reaches, 31, 100), None);
    }
}

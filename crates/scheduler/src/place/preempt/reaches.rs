//! How much each node could free at most, by priority: in blocks of nodes with the most of any of theirs, so that a search
//! for the least loss looks into few blocks, and into few nodes of these.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    ops::Range,
};

use berth_model::{resources::Resources, store::NodeSlot};
use fixedbitset::FixedBitSet;

use super::{
    block::{BLOCK, Block, BlockMaxima, KindAmounts},
    bulk::ResourceVector,
    cost::Cost,
    seats::Seats,
};

/// Priorities that are kept apart; of more, neighbours are taken together.
const BANDS_MAX: usize = 16;

/// What could be freed on each node.
#[derive(Debug, Default)]
pub struct Reaches {
    /// The lowest priority of each band, ascending.
    priorities: Vec<u8>,
    seats: Seats,
    blocks: Vec<Block>,
    /// The first node in the store of each block.
    first: Vec<Option<NodeSlot>>,
    /// The most that any node of each block has, by band.
    most: Vec<Vec<BlockMaxima>>,
    /// Blocks of which a node has changed.
    changed: FixedBitSet,
}

/// A block of nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockBound {
    /// The least that an ask may cost on any of them.
    pub bound: Cost,
    /// The first of them in the store.
    pub first: NodeSlot,
    /// Which block it is.
    pub block: usize,
}

impl Reaches {
    /// What is free on a node of a capacity, and what allocations of which priority hold there.
    pub fn set(
        &mut self,
        slot: NodeSlot,
        capacity: Resources,
        free: ResourceVector,
        held: &[(u8, ResourceVector)],
    ) {
        held.iter().for_each(|(priority, _)| self.keep_apart(*priority));
        let mut reaches = [(ResourceVector::default(), ResourceVector::default()); BANDS_MAX];
        for (priority, bulk) in held {
            let (sum, largest) = &mut reaches[self.band(*priority)];
            (*sum, *largest) = (sum.plus(*bulk), largest.max(*bulk));
        }
        let up_to_here = reaches.into_iter().scan(
            (ResourceVector::default(), ResourceVector::default()),
            |below, (sum, largest)| {
                *below = (below.0.plus(sum), below.1.max(largest));
                Some(*below)
            },
        );
        let (seat, left) = self.seats.sit(slot, capacity);
        self.write(seat, free, up_to_here);
        if let Some(left) = left {
            self.write(left, ResourceVector::default(), std::iter::repeat_n(Default::default(), BANDS_MAX));
        }
    }

    /// Takes together what has changed of the blocks; to be done before anything is asked.
    pub fn settle(&mut self) {
        self.first.resize(self.blocks.len(), None);
        self.changed.ones().for_each(|block| self.first[block] = self.seats.first(block));
        for (band, most) in self.most.iter_mut().enumerate() {
            most.resize(self.blocks.len(), BlockMaxima::default());
            self.changed.ones().for_each(|block| most[block] = self.blocks[block].most(band));
        }
        self.changed.clear();
    }

    /// The blocks on which an ask may find capacity: first where it may cost least, then where the first nodes are.
    pub fn open(&self, requested: &KindAmounts, priority_max: u8) -> BinaryHeap<Reverse<BlockBound>> {
        let bound = |block: usize| {
            let bands = self.priorities.iter().zip(&self.most);
            let mut bands = bands.take_while(|(priority, _)| **priority <= priority_max);
            bands.find_map(|(priority, most)| {
                Some(Cost { priority: *priority, count: most[block].count(requested)? })
            })
        };
        let open = |block: usize| {
            let (bound, first) = (bound(block)?, self.first[block]?);
            Some(Reverse(BlockBound { bound, first, block }))
        };
        (0..self.blocks.len()).filter_map(open).collect()
    }

    /// Where the nodes of a block sit.
    pub fn seats(block: usize) -> Range<usize> {
        block * BLOCK..(block + 1) * BLOCK
    }

    /// The first of these seats of one block whose node may have capacity for an ask at no higher cost than `most`.
    pub fn next_open(
        &self,
        seats: &Range<usize>,
        requested: &KindAmounts,
        most: Cost,
    ) -> Option<(usize, NodeSlot)> {
        let count = |priority: &u8| match priority.cmp(&most.priority) {
            Ordering::Less => Some(usize::MAX),
            Ordering::Equal => Some(most.count),
            Ordering::Greater => None,
        };
        let mut seats = seats.clone();
        let block = self.blocks.get(seats.start / BLOCK)?;
        while !seats.is_empty() {
            let bands = self.priorities.iter().map_while(count).enumerate();
            let from = seats.start % BLOCK;
            let open =
                bands.filter_map(|(band, count)| block.first_open(from, requested, band, count)).min()?;
            let seat = seats.start - from + open;
            match self.seats.node(seat).filter(|_| seats.contains(&seat)) {
                Some(node) => return Some((seat, node)),
                None => seats.start = seat + 1,
            }
        }
        None
    }

    fn write(
        &mut self,
        seat: usize,
        free: ResourceVector,
        reaches: impl Iterator<Item = (ResourceVector, ResourceVector)>,
    ) {
        let block = seat / BLOCK;
        while self.blocks.len() <= block {
            self.blocks.push(Block::empty(self.priorities.len()));
            self.changed.grow(self.blocks.len());
        }
        self.blocks[block].set(seat % BLOCK, free, reaches);
        self.changed.insert(block);
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
            self.blocks.iter_mut().for_each(|block| block.insert_band(band));
            self.most.insert(band, Vec::new());
            self.changed.insert_range(..);
        } else if band == 0 {
            self.priorities[0] = priority;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::block::requested, *};

    const SMALL: Resources = Resources { cpu_mhz: 1000, memory_mb: 1000, disk_mb: 0 };
    const LARGE: Resources = Resources { cpu_mhz: 4000, memory_mb: 1000, disk_mb: 0 };

    fn cpu(cpu_mhz: u32) -> ResourceVector {
        ResourceVector::of(Resources { cpu_mhz, ..Resources::ZERO }, 0)
    }

    fn cheapest(reaches: &mut Reaches, ask: u32, priority_max: u8) -> Option<(u8, usize, u32)> {
        reaches.settle();
        let Reverse(open) = reaches.open(&requested(cpu(ask)), priority_max).pop()?;
        Some((open.bound.priority, open.bound.count, open.first.0))
    }

    #[test]
    fn a_block_costs_no_more_than_any_of_its_nodes() {
        let mut reaches = Reaches::default();
        reaches.set(NodeSlot(1), SMALL, cpu(100), &[(30, cpu(200)), (20, cpu(300))]);
        reaches.set(NodeSlot(2), LARGE, cpu(0), &[(20, cpu(300)), (20, cpu(300))]);
        assert_eq!(cheapest(&mut reaches, 400, 50), Some((20, 1, 1)));
        assert_eq!(cheapest(&mut reaches, 500, 50), Some((20, 2, 2)));
        assert_eq!(cheapest(&mut reaches, 601, 50), None);
        reaches.set(NodeSlot(1), SMALL, cpu(101), &[(30, cpu(500)), (20, cpu(300))]);
        assert_eq!(cheapest(&mut reaches, 601, 50), Some((30, 1, 1)));
        assert_eq!(cheapest(&mut reaches, 601, 29), None);
    }

    #[test]
    fn a_node_is_open_when_what_may_go_is_enough() {
        let mut reaches = Reaches::default();
        reaches.set(NodeSlot(3), SMALL, cpu(100), &[(40, cpu(500)), (20, cpu(100)), (20, cpu(200))]);
        let may = |ask, priority, count| {
            let most = Cost { priority, count };
            reaches.next_open(&Reaches::seats(0), &requested(cpu(ask)), most) == Some((0, NodeSlot(3)))
        };
        assert!(may(300, 20, 1) && !may(301, 20, 1) && may(400, 20, 2) && !may(401, 20, 9));
        assert!(may(401, 40, 1) && may(300, 21, 0) && !may(300, 19, 9) && !may(901, 90, 9));
        assert_eq!(reaches.next_open(&(1..BLOCK), &requested(cpu(1)), Cost { priority: 90, count: 9 }), None);
    }

    #[test]
    fn what_has_much_of_one_kind_does_not_stand_in_for_what_has_much_of_both() {
        let mut reaches = Reaches::default();
        let held =
            |cpu_mhz, memory_mb| (20, ResourceVector::of(Resources { cpu_mhz, memory_mb, disk_mb: 0 }, 0));
        reaches.set(NodeSlot(0), SMALL, cpu(0), &[held(900, 100), held(100, 900)]);
        reaches.settle();
        let (_, ask) = held(800, 800);
        assert_eq!(reaches.open(&requested(ask), 50).pop().unwrap().0.bound.count, 2);
    }

    #[test]
    fn of_many_priorities_neighbours_are_taken_together() {
        let mut reaches = Reaches::default();
        let held: Vec<(u8, ResourceVector)> = (10..40).rev().map(|priority| (priority, cpu(1))).collect();
        reaches.set(NodeSlot(0), SMALL, cpu(0), &held);
        assert_eq!(reaches.priorities.len(), BANDS_MAX);
        for ask in 1..=30 {
            let (priority, _, _) = cheapest(&mut reaches, ask, 100).unwrap();
            assert!(u32::from(priority) < 10 + ask, "{priority} for {ask}");
        }
        assert_eq!(cheapest(&mut reaches, 31, 100), None);
    }

    #[test]
    fn rounding_hides_no_node() {
        let mut reaches = Reaches::default();
        for half in [16_777_217, 33_554_433, 123_456_789, 1 << 30] {
            reaches.set(NodeSlot(0), SMALL, cpu(half), &[(20, cpu(half))]);
            assert_eq!(cheapest(&mut reaches, 2 * half, 50), Some((20, 1, 0)), "{half}");
        }
    }
}

//! Which node sits where: nodes of like capacity sit together, so that the most of any of a block says much of each.

use std::collections::HashMap;

use berth_model::{resources::Resources, store::NodeSlot};

use super::block::BLOCK;

/// Capacities that are alike: doublings of cpu and of memory.
type Shape = (Option<u32>, Option<u32>);

/// The seats of nodes, [`BLOCK`] of them in a row for nodes of one shape.
#[derive(Debug, Default)]
pub struct Seats {
    /// By slot.
    taken: Vec<Option<(Shape, usize)>>,
    /// By seat.
    nodes: Vec<Option<NodeSlot>>,
    free: HashMap<Shape, Vec<usize>>,
}

impl Seats {
    /// The seat of a node of a capacity; and the one that it left for it, if it did.
    pub fn sit(&mut self, slot: NodeSlot, capacity: Resources) -> (usize, Option<usize>) {
        let shape = (capacity.cpu_mhz.checked_ilog2(), capacity.memory_mb.checked_ilog2());
        let at = slot.0 as usize;
        if self.taken.len() <= at {
            self.taken.resize(at + 1, None);
        }
        match self.taken[at] {
            Some((of, seat)) if of == shape => (seat, None),
            before => {
                let left = before.map(|(of, seat)| self.leave(of, seat));
                let seat = self.take(shape, slot);
                self.taken[at] = Some((shape, seat));
                (seat, left)
            }
        }
    }

    /// The node at a position.
    pub fn node(&self, seat: usize) -> Option<NodeSlot> {
        *self.nodes.get(seat)?
    }

    /// The first in the store of those in a row.
    pub fn first(&self, row: usize) -> Option<NodeSlot> {
        self.nodes.get(row * BLOCK..)?.iter().take(BLOCK).flatten().min().copied()
    }

    fn take(&mut self, shape: Shape, slot: NodeSlot) -> usize {
        let free = self.free.entry(shape).or_default();
        if free.is_empty() {
            let end = self.nodes.len() + BLOCK;
            free.extend((self.nodes.len()..end).rev());
            self.nodes.resize(end, None);
        }
        let seat = free.pop().expect("a row was added when there was none");
        self.nodes[seat] = Some(slot);
        seat
    }

    fn leave(&mut self, shape: Shape, seat: usize) -> usize {
        self.nodes[seat] = None;
        self.free.entry(shape).or_default().push(seat);
        seat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(cpu_mhz: u32) -> Resources {
        Resources { cpu_mhz, memory_mb: 1024, disk_mb: 0 }
    }

    #[test]
    fn like_nodes_sit_in_a_row_and_a_seat_that_is_left_is_taken_again() {
        let mut seats = Seats::default();
        assert_eq!(seats.sit(NodeSlot(7), capacity(1000)), (0, None));
        assert_eq!(seats.sit(NodeSlot(1), capacity(4000)), (BLOCK, None));
        assert_eq!(seats.sit(NodeSlot(5), capacity(1023)), (1, None));
        assert_eq!(seats.first(0), Some(NodeSlot(5)));
        assert_eq!(seats.sit(NodeSlot(5), capacity(4000)), (BLOCK + 1, Some(1)));
        assert_eq!((seats.first(0), seats.node(1)), (Some(NodeSlot(7)), None));
        assert_eq!(seats.sit(NodeSlot(9), capacity(600)), (1, None));
    }
}

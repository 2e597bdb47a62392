//! Nodes by the capacity they have left, so that the best for any ask is found while few are looked at.
//!
//! Nodes of one capacity with exactly the same capacity left form one **pile**: an idle cluster is a pile a capacity. Piles
//! lie on **shelves**, by their share of free cpu and free memory; a shelf is for nodes of about the same capacity. All
//! nodes lie on wide shelves; once that is of use, those of each class lie on narrow ones too.

mod pile;
mod shelf;
mod shelves;
mod size;

use berth_model::{resources::Resources, store::NodeSlot};

pub use self::{
    pile::NodeRank,
    shelf::{PileEntry, Shelf, bin},
    shelves::Shelves,
    size::Size,
};
use self::{pile::PileKind, size::Sizes};
use super::classes::ClassId;

/// A node on which something may be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceableNode {
    /// Its rank among equals.
    pub rank: NodeRank,
    /// Its class.
    pub class: ClassId,
    /// Capacity for allocations.
    pub capacity: Resources,
    /// What it has left.
    pub free: Resources,
}

/// All nodes on which something may be placed.
#[derive(Debug, Default)]
pub struct Grid {
    /// By slot.
    nodes: Vec<GridNode>,
    sizes: Sizes,
    wide: Shelves,
    narrow: Shelves,
    /// Nodes of whose last change the narrow shelves do not know, each once.
    behind: Vec<NodeSlot>,
}

#[derive(Debug, Clone, Copy, Default)]
struct GridNode {
    seated: Option<PlaceableNode>,
    is_behind: bool,
}

impl Grid {
    /// A node is like this now; none when nothing may be placed on it.
    pub fn set(&mut self, slot: NodeSlot, now: Option<PlaceableNode>) {
        let at = slot.0 as usize;
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, GridNode::default());
        }
        let node = &mut self.nodes[at];
        if node.seated == now {
            return;
        }
        node.seated = now;
        if !std::mem::replace(&mut node.is_behind, true) {
            self.behind.push(slot);
        }
        let kind = now.map(|PlaceableNode { capacity, free, .. }| PileKind { group: 0, capacity, free });
        self.wide.set(slot, kind.zip(now), &mut self.sizes);
    }

    /// A node; none when nothing may be placed on it.
    pub fn node(&self, slot: NodeSlot) -> Option<PlaceableNode> {
        self.nodes.get(slot.0 as usize)?.seated
    }

    /// About which capacities nodes have.
    pub fn sizes(&self) -> &[Size] {
        self.sizes.all()
    }

    /// The shelves of all nodes.
    pub fn wide(&self) -> &Shelves {
        &self.wide
    }

    /// The shelves of classes, as they were when [`Self::catch_up`] was called.
    pub fn narrow(&self) -> &Shelves {
        &self.narrow
    }

    /// Brings the shelves of classes up to date.
    pub fn catch_up(&mut self) {
        for slot in self.behind.drain(..) {
            let node = &mut self.nodes[slot.0 as usize];
            node.is_behind = false;
            let of_class = |PlaceableNode { class, capacity, free, .. }: PlaceableNode| PileKind {
                group: class.number(),
                capacity,
                free,
            };
            self.narrow.set(slot, node.seated.map(of_class).zip(node.seated), &mut self.sizes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_model::Index;
    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    fn seated(slot: u32, class: usize, free: u32) -> PlaceableNode {
        let resources = |cpu_mhz, memory_mb| Resources { cpu_mhz, memory_mb, disk_mb: 0 };
        PlaceableNode {
            rank: NodeRank { registered: Index(1), slot: NodeSlot(slot) },
            class: ClassId::nth(class),
            capacity: resources(if class == 2 { 200 } else { 100 }, 100),
            free: resources(free, 99 - free),
        }
    }

    /// What lies on some shelves, by slot.
    fn lying(shelves: &Shelves, numbers: impl Iterator<Item = u32>) -> BTreeMap<u32, (ClassId, Resources)> {
        let mut all = BTreeMap::new();
        for shelf in numbers.map(|at| &shelves.all()[at as usize]) {
            for (row, column) in (0..shelf.bins()).flat_map(|row| (0..shelf.bins()).map(move |c| (row, c))) {
                let is_noted = shelf.rows >> row & shelf.columns(row) >> column & 1 == 1;
                assert_eq!(is_noted, !shelf.cell(row, column).is_empty());
                for entry in shelf.cell(row, column) {
                    for (rank, class) in shelves.pile(entry.pile).nodes() {
                        assert_eq!(all.insert(rank.slot.0, (class, entry.kind.free)), None);
                    }
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn every_node_lies_on_one_wide_shelf_and_on_one_of_its_class(
            changes in vec((0..60_u32, option::of((0..3_usize, 0..100_u32)), 0..9_u8), 1..200),
        ) {
            let mut grid = Grid::default();
            let mut expected = BTreeMap::new();
            for (slot, now, catch_up) in changes {
                let now = now.map(|(class, free)| seated(slot, class, free));
                grid.set(NodeSlot(slot), now);
                expected.remove(&slot);
                expected.extend(now.map(|now| (slot, (now.class, now.free))));
                if catch_up == 0 {
                    grid.catch_up();
                }
            }
            grid.catch_up();
            let wide = grid.wide();
            prop_assert_eq!(lying(wide, wide.of(0).iter().copied()), expected.clone());
            for class in (0..3).map(ClassId::nth) {
                let found = lying(grid.narrow(), grid.narrow().of(class.number()).iter().copied());
                let of_class = expected.iter().filter(|(_, (of, _))| *of == class);
                prop_assert!(found.iter().eq(of_class));
            }
        }
    }
}

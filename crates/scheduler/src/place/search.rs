//! Best first: the nodes of a zone in the exact order of their score for one ask.
//!
//! A step of the search stands for a row, a cell or a node, with the highest score that it may lead to. The best step
//! is taken until it is a node. What comes after that node is left for later, so that the next of a hundred like
//! asks goes on where the last one stopped.
//!
//! A search looks among all nodes first, and passes over what is in other zones. Where it passes over more than a look
//! at each class of the zone would have cost, it begins again among these classes alone.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
};

use berth_model::{Index, store::NodeSlot};

use super::{
    classes::ClassId,
    grid::{Entry, Grid, Seat, Shelf, Shelves},
    requirements::Members,
    sought::Sought,
};

/// Nodes that a search passes over for each member of its zone before it looks among these alone.
const PASSES_PER_MEMBER: usize = 8;

/// A search that can be continued while the grid stays as it is.
#[derive(Debug, Default)]
pub struct Search {
    steps: BinaryHeap<Step>,
    /// Set while it looks among all nodes: whose nodes it shows, and how many more of others it may pass over.
    wide: Option<Wide>,
}

#[derive(Debug, Clone, Copy)]
struct Wide {
    zone: u32,
    passes_left: usize,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    bound: f64,
    to: To,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Row {
        shelf: u32,
        row: u8,
    },
    Cell {
        shelf: u32,
        row: u8,
        column: u8,
    },
    /// A node, and the pile of which the next node is as good.
    Node {
        registered: Index,
        slot: NodeSlot,
        pile: Option<u32>,
    },
}

impl Step {
    fn row(bound: f64, shelf: u32, row: usize) -> Self {
        Self { bound, to: To::Row { shelf, row: row as u8 } }
    }

    fn cell(bound: f64, (shelf, row): (u32, u8), column: usize) -> Self {
        Self { bound, to: To::Cell { shelf, row, column: column as u8 } }
    }

    fn node(bound: f64, Seat { registered, slot }: Seat, pile: Option<u32>) -> Self {
        Self { bound, to: To::Node { registered, slot, pile } }
    }
}

impl Ord for Step {
    /// The greatest is taken first: the best score, what may still lead to as good a node, the first to register.
    #[inline]
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
    /// A search among the nodes of a zone.
    pub fn of_zone(grid: &mut Grid, sought: &Sought<'_>, zone: u32) -> Self {
        let mut search = Self::default();
        let members = sought.requirements.members(zone).len();
        let shelves = grid.wide().all();
        if members <= shelves.len() {
            search.add_members(grid, sought, zone);
        } else {
            search.wide = Some(Wide { zone, passes_left: members * PASSES_PER_MEMBER });
            search.steps.extend((0..).zip(shelves).filter_map(|(at, shelf)| first_row(sought, at, shelf)));
        }
        search
    }

    /// Searches one more node.
    pub fn add_node(&mut self, score: f64, seat: Seat) {
        self.steps.push(Step::node(score, seat, None));
    }

    /// The best node left, and its score. One that was passed over may come once more.
    pub fn best(&mut self, grid: &mut Grid, sought: &Sought<'_>) -> Option<(f64, Seat)> {
        loop {
            if let Some(Wide { zone, passes_left: 0 }) = self.wide {
                self.narrow_down(grid, sought, zone);
            }
            let Step { bound, to } = *self.steps.peek()?;
            let shelves = self.shelves(grid);
            match to {
                To::Node { registered, slot, .. } => return Some((bound, Seat { registered, slot })),
                To::Row { shelf, row } => {
                    self.enter_row(&shelves.all()[shelf as usize], sought, (shelf, row))
                }
                To::Cell { shelf, row, column } => {
                    let on = &shelves.all()[shelf as usize];
                    let next =
                        sought.after(column.into()).and_then(|start| sought.cell(on, row.into(), start));
                    self.replace_best(next.map(|(column, bound)| Step::cell(bound, (shelf, row), column)));
                    self.open(shelves, sought, on.size, on.cell(row.into(), column.into()));
                }
            }
        }
    }

    /// Passes over the best node.
    pub fn skip_best(&mut self, grid: &Grid, sought: &Sought<'_>) {
        let Some(Step { bound, to: To::Node { registered, slot, pile } }) = self.steps.peek().copied() else {
            return;
        };
        let seat = Seat { registered, slot };
        let next = pile.and_then(|pile| self.first_of(self.shelves(grid).pile(pile).after(seat), sought));
        self.replace_best(next.map(|seat| Step::node(bound, seat, pile)));
    }

    fn shelves<'a>(&self, grid: &'a Grid) -> &'a Shelves {
        if self.wide.is_some() { grid.wide() } else { grid.narrow() }
    }

    /// Puts a step in the place of the best one, or nothing.
    fn replace_best(&mut self, with: Option<Step>) {
        let Some(mut best) = self.steps.peek_mut() else { return };
        match with {
            Some(step) => *best = step,
            None => drop(PeekMut::pop(best)),
        }
    }

    /// The first cell of a row, and the way to the next row.
    fn enter_row(&mut self, on: &Shelf, sought: &Sought<'_>, (shelf, row): (u32, u8)) {
        let next = sought.after(row.into()).and_then(|start| sought.row(on, start));
        self.replace_best(next.map(|(row, bound)| Step::row(bound, shelf, row)));
        let cell = sought.cell(on, row.into(), sought.start(on));
        self.steps.extend(cell.map(|(column, bound)| Step::cell(bound, (shelf, row), column)));
    }

    /// The nodes of a cell.
    fn open(&mut self, shelves: &Shelves, sought: &Sought<'_>, size: u32, cell: &[Entry]) {
        for entry in cell {
            let Some(packing) = sought.packing_of(size, entry) else { continue };
            let first = self.first_of(shelves.pile(entry.pile).nodes(), sought);
            self.steps.extend(first.map(|seat| Step::node(packing, seat, Some(entry.pile))));
        }
    }

    /// The first of some nodes that is in the zone.
    fn first_of(
        &mut self,
        mut nodes: impl Iterator<Item = (Seat, ClassId)>,
        sought: &Sought<'_>,
    ) -> Option<Seat> {
        let Some(Wide { zone, passes_left }) = &mut self.wide else {
            return nodes.next().map(|(seat, _)| seat);
        };
        for (seat, class) in nodes {
            if sought.requirements.zone_of(class, seat.slot) == Some(*zone) {
                return Some(seat);
            }
            *passes_left = passes_left.checked_sub(1)?;
        }
        None
    }

    /// Begins again among the members of the zone.
    fn narrow_down(&mut self, grid: &mut Grid, sought: &Sought<'_>, zone: u32) {
        self.wide = None;
        self.steps.retain(|step| matches!(step.to, To::Node { pile: None, .. }));
        self.add_members(grid, sought, zone);
    }

    fn add_members(&mut self, grid: &mut Grid, sought: &Sought<'_>, zone: u32) {
        match sought.requirements.members(zone) {
            Members::Classes(classes) => {
                grid.catch_up();
                let narrow = grid.narrow();
                let shelves = classes.iter().flat_map(|class| narrow.of(class.number()));
                let rows = shelves.filter_map(|at| first_row(sought, *at, &narrow.all()[*at as usize]));
                self.steps.extend(rows);
            }
            Members::Nodes(nodes) => {
                for node in nodes.iter().filter_map(|slot| grid.node(*slot)) {
                    if let Some(packing) = sought.packing(node.capacity, node.free) {
                        self.add_node(packing, node.seat);
                    }
                }
            }
        }
    }
}

fn first_row(sought: &Sought<'_>, shelf: u32, on: &Shelf) -> Option<Step> {
    let (row, bound) = sought.row(on, sought.start(on))?;
    Some(Step::row(bound, shelf, row))
}

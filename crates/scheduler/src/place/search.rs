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
    grid::{Grid, NodeRank, PileEntry, Shelf, Shelves},
    requirements::ZoneMembers,
    sized_ask::SizedAsk,
};

/// Nodes that a search passes over for each member of its zone before it looks among these alone.
const PASSES_PER_MEMBER: usize = 8;

/// A search that can be continued while the grid stays as it is.
#[derive(Debug, Default)]
pub struct NodeSearch {
    steps: BinaryHeap<SearchStep>,
    /// Set while it looks among all nodes: whose nodes it shows, and how many more of others it may pass over.
    wide: Option<WideSearch>,
}

#[derive(Debug, Clone, Copy)]
struct WideSearch {
    zone: u32,
    passes_left: usize,
}

#[derive(Debug, Clone, Copy)]
struct SearchStep {
    bound: f64,
    to: StepTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StepTarget {
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

impl SearchStep {
    fn row(bound: f64, shelf: u32, row: usize) -> Self {
        Self { bound, to: StepTarget::Row { shelf, row: row as u8 } }
    }

    fn cell(bound: f64, (shelf, row): (u32, u8), column: usize) -> Self {
        Self { bound, to: StepTarget::Cell { shelf, row, column: column as u8 } }
    }

    fn node(bound: f64, NodeRank { registered, slot }: NodeRank, pile: Option<u32>) -> Self {
        Self { bound, to: StepTarget::Node { registered, slot, pile } }
    }
}

impl Ord for SearchStep {
    /// The greatest is taken first: the best score, what may still lead to as good a node, the first to register.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.bound.total_cmp(&other.bound).then_with(|| other.to.cmp(&self.to))
    }
}

impl PartialOrd for SearchStep {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SearchStep {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SearchStep {}

impl NodeSearch {
    /// A search among the nodes of a zone.
    pub fn of_zone(grid: &mut Grid, sized_ask: &SizedAsk<'_>, zone: u32) -> Self {
        let mut search = Self::default();
        let members = sized_ask.requirements.members(zone).len();
        let shelves = grid.wide().all();
        if members <= shelves.len() {
            search.add_members(grid, sized_ask, zone);
        } else {
            search.wide = Some(WideSearch { zone, passes_left: members * PASSES_PER_MEMBER });
            search.steps.extend((0..).zip(shelves).filter_map(|(at, shelf)| first_row(sized_ask, at, shelf)));
        }
        search
    }

    /// Searches one more node.
    pub fn add_node(&mut self, score: f64, rank: NodeRank) {
        self.steps.push(SearchStep::node(score, rank, None));
    }

    /// The best node left, and its score. One that was passed over may come once more.
    pub fn best(&mut self, grid: &mut Grid, sized_ask: &SizedAsk<'_>) -> Option<(f64, NodeRank)> {
        loop {
            if let Some(WideSearch { zone, passes_left: 0 }) = self.wide {
                self.narrow_down(grid, sized_ask, zone);
            }
            let SearchStep { bound, to } = *self.steps.peek()?;
            let shelves = self.shelves(grid);
            match to {
                StepTarget::Node { registered, slot, .. } => {
                    return Some((bound, NodeRank { registered, slot }));
                }
                StepTarget::Row { shelf, row } => {
                    self.enter_row(&shelves.all()[shelf as usize], sized_ask, (shelf, row))
                }
                StepTarget::Cell { shelf, row, column } => {
                    let on = &shelves.all()[shelf as usize];
                    let next = sized_ask
                        .after(column.into())
                        .and_then(|start| sized_ask.cell(on, row.into(), start));
                    self.replace_best(
                        next.map(|(column, bound)| SearchStep::cell(bound, (shelf, row), column)),
                    );
                    self.open(shelves, sized_ask, on.size, on.cell(row.into(), column.into()));
                }
            }
        }
    }

    /// Passes over the best node.
    pub fn skip_best(&mut self, grid: &Grid, sized_ask: &SizedAsk<'_>) {
        let Some(SearchStep { bound, to: StepTarget::Node { registered, slot, pile } }) =
            self.steps.peek().copied()
        else {
            return;
        };
        let rank = NodeRank { registered, slot };
        let next = pile.and_then(|pile| self.first_of(self.shelves(grid).pile(pile).after(rank), sized_ask));
        self.replace_best(next.map(|rank| SearchStep::node(bound, rank, pile)));
    }

    fn shelves<'a>(&self, grid: &'a Grid) -> &'a Shelves {
        if self.wide.is_some() { grid.wide() } else { grid.narrow() }
    }

    /// Puts a step in place of the best one, or nothing.
    fn replace_best(&mut self, with: Option<SearchStep>) {
        let Some(mut best) = self.steps.peek_mut() else { return };
        match with {
            Some(step) => *best = step,
            None => drop(PeekMut::pop(best)),
        }
    }

    /// The first cell of a row, and the way to the next row.
    fn enter_row(&mut self, on: &Shelf, sized_ask: &SizedAsk<'_>, (shelf, row): (u32, u8)) {
        let next = sized_ask.after(row.into()).and_then(|start| sized_ask.row(on, start));
        self.replace_best(next.map(|(row, bound)| SearchStep::row(bound, shelf, row)));
        let cell = sized_ask.cell(on, row.into(), sized_ask.start(on));
        self.steps.extend(cell.map(|(column, bound)| SearchStep::cell(bound, (shelf, row), column)));
    }

    /// The nodes of a cell.
    fn open(&mut self, shelves: &Shelves, sized_ask: &SizedAsk<'_>, size: u32, cell: &[PileEntry]) {
        for entry in cell {
            let Some(packing) = sized_ask.packing_of(size, entry) else { continue };
            let first = self.first_of(shelves.pile(entry.pile).nodes(), sized_ask);
            self.steps.extend(first.map(|rank| SearchStep::node(packing, rank, Some(entry.pile))));
        }
    }

    /// The first of some nodes that is in the zone.
    fn first_of(
        &mut self,
        mut nodes: impl Iterator<Item = (NodeRank, ClassId)>,
        sized_ask: &SizedAsk<'_>,
    ) -> Option<NodeRank> {
        let Some(WideSearch { zone, passes_left }) = &mut self.wide else {
            return nodes.next().map(|(rank, _)| rank);
        };
        for (rank, class) in nodes {
            if sized_ask.requirements.zone_of(class, rank.slot) == Some(*zone) {
                return Some(rank);
            }
            *passes_left = passes_left.checked_sub(1)?;
        }
        None
    }

    /// Begins again among the members of the zone.
    fn narrow_down(&mut self, grid: &mut Grid, sized_ask: &SizedAsk<'_>, zone: u32) {
        self.wide = None;
        self.steps.retain(|step| matches!(step.to, StepTarget::Node { pile: None, .. }));
        self.add_members(grid, sized_ask, zone);
    }

    fn add_members(&mut self, grid: &mut Grid, sized_ask: &SizedAsk<'_>, zone: u32) {
        match sized_ask.requirements.members(zone) {
            ZoneMembers::Classes(classes) => {
                grid.catch_up();
                let narrow = grid.narrow();
                let shelves = classes.iter().flat_map(|class| narrow.of(class.number()));
                let rows = shelves.filter_map(|at| first_row(sized_ask, *at, &narrow.all()[*at as usize]));
                self.steps.extend(rows);
            }
            ZoneMembers::Nodes(nodes) => {
                for node in nodes.iter().filter_map(|slot| grid.node(*slot)) {
                    if let Some(packing) = sized_ask.packing(node.capacity, node.free) {
                        self.add_node(packing, node.rank);
                    }
                }
            }
        }
    }
}

fn first_row(sized_ask: &SizedAsk<'_>, shelf: u32, on: &Shelf) -> Option<SearchStep> {
    let (row, bound) = sized_ask.row(on, sized_ask.start(on))?;
    Some(SearchStep::row(bound, shelf, row))
}

//! The nodes that one group may go to, best first, while its allocations are placed one after the other.
//!
//! Nodes in one zone with equally many allocations of the group form a **cell**: whatever else is scored is the same for
//! all of them, so that the best of a cell is the one that packs best. Nodes without an allocation of the group are
//! searched as far as needed; the others are few, and move to another cell with each allocation that they get.

use berth_model::{
    job::{Group, Job},
    resources::Resources,
    scheduling::Algorithm,
    store::NodeSlot,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    columns::Columns,
    distinct::DistinctRules,
    grid::NodeRank,
    requirements::{Requirements, Zone},
    search::NodeSearch,
    sized_ask::SizedAsk,
};
use crate::scores::{Candidate, SpreadScore};

/// The candidates of one group.
#[derive(Debug)]
pub struct Candidates<'a> {
    sized_ask: SizedAsk<'a>,
    /// How many allocations the group wants.
    desired: u32,
    spreads: Vec<SpreadScore>,
    cells: Vec<CandidateCell>,
    /// The best node of each cell.
    bests: Vec<BestNode>,
    /// Cells that may have another best node than the last one found.
    stale: Vec<usize>,
    by_key: FxHashMap<(u32, u32), usize>,
    /// Allocations of the group, by node.
    collisions: FxHashMap<NodeSlot, u32>,
    /// Nodes that nothing more of the group may go to.
    closed: FxHashSet<NodeSlot>,
}

#[derive(Debug)]
struct CandidateCell {
    zone: u32,
    collisions: u32,
    nodes: NodeSearch,
}

/// A node with its score, the mean of all; of equal ones the better packed is better, then the first to register.
#[derive(Debug, Clone, Copy)]
pub struct BestNode {
    total: f64,
    packing: f64,
    rank: NodeRank,
}

impl BestNode {
    /// The node.
    pub fn node(&self) -> NodeSlot {
        self.rank.slot
    }

    /// Whether it is better than another one.
    pub fn beats(&self, other: &Self) -> bool {
        let scores = self.total.total_cmp(&other.total).then(self.packing.total_cmp(&other.packing));
        scores.then(other.rank.cmp(&self.rank)).is_gt()
    }

    /// For a cell without a node.
    const NONE: Self = Self {
        total: f64::NEG_INFINITY,
        packing: f64::NEG_INFINITY,
        rank: NodeRank { registered: berth_model::Index(u64::MAX), slot: NodeSlot(u32::MAX) },
    };
}

impl<'a> Candidates<'a> {
    /// The candidates of a group that has no allocation yet; add those it has with [`Self::add`], then
    /// [`Self::open`].
    pub fn new(
        requirements: &'a Requirements,
        job: &Job,
        group: &Group,
        ask: Resources,
        algorithm: Algorithm,
    ) -> Self {
        let all = || job.spreads.iter().chain(&group.spreads);
        let weights = all().map(|spread| u32::from(spread.weight)).sum();
        let attributes = requirements.attributes.iter();
        let spreads = all()
            .zip(attributes)
            .map(|(s, attribute)| SpreadScore::new(s, group.count, weights, &attribute.values))
            .collect();
        Self {
            sized_ask: SizedAsk::new(requirements, ask, algorithm),
            desired: group.count,
            spreads,
            cells: Vec::new(),
            bests: Vec::new(),
            stale: Vec::new(),
            by_key: FxHashMap::default(),
            collisions: FxHashMap::default(),
            closed: FxHashSet::default(),
        }
    }

    /// An allocation of the group is on a node.
    pub fn add(&mut self, columns: &Columns, slot: NodeSlot) {
        *self.collisions.entry(slot).or_default() += 1;
        if !self.spreads.is_empty() {
            let values = self.sized_ask.requirements.values(columns, slot);
            for (spread, value) in self.spreads.iter_mut().zip(values) {
                value.map(|value| spread.add(value));
            }
        }
    }

    /// Makes the cells, once all allocations are known.
    pub fn open(&mut self, columns: &mut Columns) {
        self.sized_ask.learn(columns.grid().sizes());
        for zone in (0..).take(self.sized_ask.requirements.zones().len()) {
            let nodes = NodeSearch::of_zone(columns.grid_mut(), &self.sized_ask, zone);
            self.add_cell(zone, 0, nodes);
        }
        #[expect(clippy::disallowed_methods, reason = "sorted before it is used")]
        let mut collisions_by_node: Vec<(NodeSlot, u32)> =
            self.collisions.iter().map(|(slot, n)| (*slot, *n)).collect();
        collisions_by_node.sort_unstable();
        for (slot, collisions) in collisions_by_node {
            self.add_node(columns, slot, collisions);
        }
    }

    /// The best node; call [`Self::close`] when it turns out that it cannot be used.
    pub fn best(&mut self, columns: &mut Columns, distinct: &DistinctRules) -> Option<BestNode> {
        while let Some(cell) = self.stale.pop() {
            self.refresh(cell, columns, distinct);
        }
        let better = |best: BestNode, other: &BestNode| if other.beats(&best) { *other } else { best };
        let best = self.bests.iter().fold(BestNode::NONE, better);
        (best.total > f64::NEG_INFINITY).then_some(best)
    }

    /// A node as the one on which the predecessor failed; none when it has no capacity.
    pub fn penalized(&mut self, columns: &Columns, slot: NodeSlot) -> Option<BestNode> {
        let (zone, packing) = self.zone_and_packing(columns, slot)?;
        let collisions = self.collisions.get(&slot).copied().unwrap_or(0);
        let mean = Candidate { has_failed: true, ..self.candidate(zone, collisions) }.mean();
        Some(BestNode { total: mean.of(packing), packing, rank: columns.row(slot).rank(slot) })
    }

    /// A node whose devices meet the affinities to devices that well, and if given with another score for packing; none
    /// when the group has no capacity there.
    pub fn with_devices(
        &mut self,
        columns: &Columns,
        slot: NodeSlot,
        packing: Option<f64>,
        device_affinity: f64,
        has_failed: bool,
    ) -> Option<BestNode> {
        let (zone, by_room) = self.zone_and_packing(columns, slot)?;
        let collisions = self.collisions.get(&slot).copied().unwrap_or(0);
        let mean = Candidate { device_affinity, has_failed, ..self.candidate(zone, collisions) }.mean();
        let packing = packing.unwrap_or(by_room);
        Some(BestNode { total: mean.of(packing), packing, rank: columns.row(slot).rank(slot) })
    }

    /// Nothing more of the group may go to a node.
    pub fn close(&mut self, slot: NodeSlot, columns: &Columns) {
        if self.closed.insert(slot) {
            self.stale.extend(self.cell_of(slot, columns));
        }
    }

    /// A node that was closed may be used again.
    pub fn reopen(&mut self, slot: NodeSlot, columns: &Columns) {
        if self.closed.remove(&slot) {
            let collisions = self.collisions.get(&slot).copied().unwrap_or(0);
            self.add_node(columns, slot, collisions);
            self.stale.extend(self.cell_of(slot, columns));
        }
    }

    /// An allocation went to a node, and its row has changed.
    pub fn enter(&mut self, slot: NodeSlot, columns: &Columns, distinct: &DistinctRules) {
        self.stale.extend(self.cell_of(slot, columns));
        let collisions = self.collisions.entry(slot).or_default();
        *collisions += 1;
        let collisions = *collisions;
        if !distinct.is_by_host() {
            self.add_node(columns, slot, collisions);
        }
        self.stale.extend(self.cell_of(slot, columns));
        if let Some(zone) = self.sized_ask.requirements.zone(columns, slot) {
            self.count(&self.sized_ask.requirements.zones()[zone as usize], distinct);
        }
    }

    /// One more allocation is in a zone: what its values score changes, and perhaps what all others score.
    fn count(&mut self, zone: &Zone, distinct: &DistinctRules) {
        if zone.values.is_empty() {
            return;
        }
        let mut all = false;
        for (spread, value) in self.spreads.iter_mut().zip(&zone.values) {
            all |= value.is_some_and(|value| spread.add(value));
        }
        for cell in 0..self.cells.len() {
            let values = &self.sized_ask.requirements.zones()[self.cells[cell].zone as usize].values;
            if all || values.iter().zip(&zone.values).any(|(a, b)| a == b) {
                self.rescore(cell, distinct);
            }
        }
    }

    fn cell_of(&self, slot: NodeSlot, columns: &Columns) -> Option<usize> {
        let zone = self.sized_ask.requirements.zone(columns, slot)?;
        let collisions = self.collisions.get(&slot).copied().unwrap_or(0);
        self.by_key.get(&(zone, collisions)).copied()
    }

    /// Finds a cell's best node that is still in it.
    fn refresh(&mut self, at: usize, columns: &mut Columns, distinct: &DistinctRules) {
        let cell = &mut self.cells[at];
        let (packing, rank) = loop {
            let Some((packing, rank)) = cell.nodes.best(columns.grid_mut(), &self.sized_ask) else {
                self.bests[at] = BestNode::NONE;
                return;
            };
            let collisions = self.collisions.get(&rank.slot).copied().unwrap_or(0);
            if collisions == cell.collisions && !self.closed.contains(&rank.slot) {
                break (packing, rank);
            }
            cell.nodes.skip_best(columns.grid(), &self.sized_ask);
        };
        self.bests[at] = BestNode { total: f64::NEG_INFINITY, packing, rank };
        self.rescore(at, distinct);
    }

    fn rescore(&mut self, at: usize, distinct: &DistinctRules) {
        let CandidateCell { zone, collisions, .. } = self.cells[at];
        let best = self.bests[at];
        if best.packing > f64::NEG_INFINITY {
            let is_open = distinct.check_zone(&self.sized_ask.requirements.zones()[zone as usize]).is_ok();
            let total = self.candidate(zone, collisions).mean().of(best.packing);
            self.bests[at].total = if is_open { total } else { f64::NEG_INFINITY };
        }
    }

    /// A node of a zone, as one of a cell.
    fn candidate(&self, zone: u32, collisions: u32) -> Candidate<'_> {
        let zone = &self.sized_ask.requirements.zones()[zone as usize];
        Candidate {
            of_node: zone.scores,
            collisions,
            desired: self.desired,
            spreads: &self.spreads,
            values: &zone.values,
            device_affinity: 0.0,
            has_failed: false,
        }
    }

    fn add_node(&mut self, columns: &Columns, slot: NodeSlot, collisions: u32) {
        if let Some((zone, packing)) = self.zone_and_packing(columns, slot) {
            let cell = self.cell(zone, collisions);
            self.cells[cell].nodes.add_node(packing, columns.row(slot).rank(slot));
        }
    }

    /// None when the node cannot run the group, or has no capacity.
    fn zone_and_packing(&self, columns: &Columns, slot: NodeSlot) -> Option<(u32, f64)> {
        let row = columns.row(slot);
        let zone = self.sized_ask.requirements.zone_of(row.class.filter(|_| row.ready)?, slot)?;
        Some((zone, self.sized_ask.packing(row.capacity, row.free)?))
    }

    fn cell(&mut self, zone: u32, collisions: u32) -> usize {
        match self.by_key.get(&(zone, collisions)) {
            Some(cell) => *cell,
            None => self.add_cell(zone, collisions, NodeSearch::default()),
        }
    }

    fn add_cell(&mut self, zone: u32, collisions: u32, nodes: NodeSearch) -> usize {
        self.by_key.insert((zone, collisions), self.cells.len());
        self.cells.push(CandidateCell { zone, collisions, nodes });
        self.bests.push(BestNode::NONE);
        self.stale.push(self.cells.len() - 1);
        self.cells.len() - 1
    }
}

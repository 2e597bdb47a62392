//! The nodes as a planner sees them: the store's latest state, less what plans on their way have taken.

use std::sync::Arc;

use berth_model::{
    Index, NodeId,
    node::Node,
    resources::Resources,
    scheduling::Algorithm,
    store::{NodeSlot, Store},
};

use super::{
    classes::{ClassId, Classes},
    grid::{Grid, Seat},
};
use crate::{
    claims::Claims,
    scores::{Powers, bin_pack},
};

/// One node.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Row {
    /// Its id; zero for a slot without a node.
    pub id: NodeId,
    /// Its registration.
    pub registered: Index,
    /// What allocations may have.
    pub capacity: Resources,
    /// What is left for new allocations.
    pub free: Resources,
    /// Whether new allocations may be placed here.
    pub ready: bool,
}

impl Row {
    /// Its place among equals.
    pub fn seat(&self, slot: NodeSlot) -> Seat {
        Seat { registered: self.registered, slot }
    }

    /// How good it is for an ask that fits, as far as room goes.
    pub fn packing(&self, algorithm: Algorithm, ask: Resources) -> f64 {
        bin_pack(algorithm, Powers::of(self.free, self.capacity), Powers::of(ask, self.capacity))
    }
}

/// All nodes, by slot.
#[derive(Debug, Default)]
pub struct Columns {
    rows: Vec<Row>,
    nodes: Vec<Option<(Arc<Node>, ClassId)>>,
    /// Ports claimed by plans on their way, by slot.
    claimed_ports: Vec<Vec<u16>>,
    store_position: u64,
    claims_position: u64,
    classes: Classes,
    /// The nodes that are ready.
    grid: Grid,
    epoch: u64,
}

impl Columns {
    /// Catches up with a newer state.
    pub fn follow(&mut self, store: &Store, claims: &Claims) {
        let nodes = store.nodes();
        let behind = nodes.changes_since(self.store_position).zip(claims.changes_since(self.claims_position));
        match behind {
            Some((changed, claimed)) => changed
                .chain(claimed.filter_map(|id| nodes.find(id)))
                .for_each(|slot| self.refresh(slot, store, claims)),
            None => (0..nodes.slots())
                .filter_map(|at| u32::try_from(at).ok())
                .for_each(|at| self.refresh(NodeSlot(at), store, claims)),
        }
        self.store_position = nodes.changes_end();
        self.claims_position = claims.changes_end();
    }

    fn refresh(&mut self, slot: NodeSlot, store: &Store, claims: &Claims) {
        let at = slot.0 as usize;
        if at >= self.rows.len() {
            self.rows.resize_with(at + 1, Row::default);
            self.nodes.resize(at + 1, None);
            self.claimed_ports.resize(at + 1, Vec::new());
            self.epoch += 1;
        }
        let mut row = Row::default();
        if let Some(node) = store.nodes().row(slot) {
            let (claimed, ports) = claims.of_node(node.id, store.index());
            row = Row {
                id: node.id,
                registered: node.create_index,
                capacity: node.capacity,
                free: node.free().minus(claimed),
                ready: node.is_ready(),
            };
            self.claimed_ports[at] = ports;
        }
        let node = store.nodes().detail(slot).map(|detail| &detail.node);
        if self.is_described_by(at, node) {
            self.set(slot, row);
        } else {
            self.set(slot, Row { ready: false, ..row });
            self.describe(at, node);
            self.set(slot, row);
        }
    }

    fn is_described_by(&self, at: usize, node: Option<&Arc<Node>>) -> bool {
        match (&self.nodes[at], node) {
            (Some((before, _)), Some(now)) => Arc::ptr_eq(before, now),
            (None, None) => true,
            _ => false,
        }
    }

    fn describe(&mut self, at: usize, node: Option<&Arc<Node>>) {
        if let Some((_, class)) = self.nodes[at].take() {
            self.classes.leave(class);
        }
        self.nodes[at] = node.map(|node| (node.clone(), self.classes.enter(node)));
        self.epoch += 1;
    }

    fn set(&mut self, slot: NodeSlot, row: Row) {
        let before = std::mem::replace(&mut self.rows[slot.0 as usize], row);
        if before == row {
            return;
        }
        let Some(class) = self.class(slot) else { return };
        if before.ready {
            self.grid.take(class, before.capacity, before.free, before.seat(slot));
        }
        if row.ready {
            self.grid.put(class, row.capacity, row.free, row.seat(slot));
        }
    }

    /// A node's row.
    pub fn row(&self, slot: NodeSlot) -> &Row {
        &self.rows[slot.0 as usize]
    }

    /// What a node is; none for a slot without a node.
    pub fn node(&self, slot: NodeSlot) -> Option<&Arc<Node>> {
        self.nodes[slot.0 as usize].as_ref().map(|(node, _)| node)
    }

    /// The class of a node; none for a slot without a node.
    pub fn class(&self, slot: NodeSlot) -> Option<ClassId> {
        self.nodes[slot.0 as usize].as_ref().map(|(_, class)| *class)
    }

    /// Every slot that may have a node.
    pub fn slots(&self) -> impl Iterator<Item = NodeSlot> + use<> {
        (0..self.rows.len()).filter_map(|at| Some(NodeSlot(u32::try_from(at).ok()?)))
    }

    /// The classes of the nodes.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The ready nodes by their room.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Ports that plans on their way hold on a node.
    pub fn claimed_ports(&self, slot: NodeSlot) -> &[u16] {
        &self.claimed_ports[slot.0 as usize]
    }

    /// Grows when what any node is changes.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The plan at work takes room.
    pub fn hold(&mut self, slot: NodeSlot, resources: Resources, ports: &[u16]) {
        let row = *self.row(slot);
        self.set(slot, Row { free: row.free.minus(resources), ..row });
        self.claimed_ports[slot.0 as usize].extend_from_slice(ports);
    }

    /// The plan at work gives room back.
    pub fn give_back(&mut self, slot: NodeSlot, resources: Resources, ports: &[u16]) {
        let row = *self.row(slot);
        self.set(slot, Row { free: row.free.plus(resources), ..row });
        self.claimed_ports[slot.0 as usize].retain(|port| !ports.contains(port));
    }
}

//! The nodes as a planner sees them: the store's latest state, less what plans on their way have taken.

use std::sync::Arc;

use berth_model::{
    NodeId,
    node::Node,
    resources::Resources,
    store::{NodeSlot, Store},
};

use crate::claims::Claims;

/// Changes of rows that a reader can be behind before it must read them all.
const LOG_MAX: usize = 1 << 16;

/// One node.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Its id; zero for a slot without a node.
    pub id: NodeId,
    /// What allocations may have.
    pub capacity: Resources,
    /// What is left for new allocations.
    pub free: Resources,
    /// Whether new allocations may be placed here.
    pub ready: bool,
    /// Grows with each change of this row.
    pub version: u32,
}

/// All nodes, by slot.
#[derive(Debug, Default)]
pub struct Columns {
    rows: Vec<Row>,
    nodes: Vec<Option<Arc<Node>>>,
    /// Ports claimed by plans on their way, by slot.
    claimed_ports: Vec<Vec<u16>>,
    store_position: u64,
    claims_position: u64,
    /// Grows when what a node is changes.
    epoch: u64,
    log: Vec<u32>,
    log_start: u64,
}

impl Columns {
    /// Catches up with a newer state.
    pub fn follow(&mut self, store: &Store, claims: &Claims) {
        let nodes = store.nodes();
        let behind = nodes.changes_since(self.store_position).zip(claims.changes_since(self.claims_position));
        let changed: Vec<NodeSlot> = match behind {
            Some((changed, claimed)) => changed.chain(claimed.filter_map(|id| nodes.find(id))).collect(),
            None => (0..nodes.slots()).filter_map(|at| Some(NodeSlot(u32::try_from(at).ok()?))).collect(),
        };
        for slot in changed {
            self.refresh(slot, store, claims);
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
        }
        let detail = store.nodes().detail(slot);
        self.refresh_node(at, detail.map(|d| &d.node));
        let row = &mut self.rows[at];
        match store.nodes().row(slot) {
            None => *row = Row { version: row.version, ..Row::default() },
            Some(node) => {
                let (claimed, ports) = claims.of_node(node.id, store.index());
                row.id = node.id;
                row.capacity = node.capacity;
                row.free = node.free().minus(claimed);
                row.ready = node.is_ready();
                self.claimed_ports[at] = ports;
            }
        }
        self.note_change(slot);
    }

    fn refresh_node(&mut self, at: usize, node: Option<&Arc<Node>>) {
        let same = match (&self.nodes[at], node) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.nodes[at] = node.cloned();
            self.epoch += 1;
        }
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// A node's row.
    pub fn row(&self, slot: NodeSlot) -> &Row {
        &self.rows[slot.0 as usize]
    }

    /// What a node is; none for a slot without a node.
    pub fn node(&self, slot: NodeSlot) -> Option<&Arc<Node>> {
        self.nodes[slot.0 as usize].as_ref()
    }

    /// Every slot that may have a node.
    pub fn slots(&self) -> impl Iterator<Item = NodeSlot> + use<> {
        (0..self.rows.len()).filter_map(|at| Some(NodeSlot(u32::try_from(at).ok()?)))
    }

    /// Ports that plans on their way hold on a node.
    pub fn claimed_ports(&self, slot: NodeSlot) -> &[u16] {
        &self.claimed_ports[slot.0 as usize]
    }

    /// Grows when what any node is changes: answers of filters are good for one epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The plan at work takes room.
    pub fn hold(&mut self, slot: NodeSlot, resources: Resources, ports: &[u16]) {
        let row = &mut self.rows[slot.0 as usize];
        row.free = row.free.minus(resources);
        self.claimed_ports[slot.0 as usize].extend_from_slice(ports);
        self.note_change(slot);
    }

    /// The plan at work gives room back.
    pub fn give_back(&mut self, slot: NodeSlot, resources: Resources, ports: &[u16]) {
        let row = &mut self.rows[slot.0 as usize];
        row.free = row.free.plus(resources);
        self.claimed_ports[slot.0 as usize].retain(|port| !ports.contains(port));
        self.note_change(slot);
    }

    /// The position after the last change of any row.
    pub fn log_end(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// The rows changed since a position; none when that is too long ago.
    pub fn changed_since(&self, position: u64) -> Option<&[u32]> {
        self.log.get(usize::try_from(position.checked_sub(self.log_start)?).ok()?..)
    }

    fn note_change(&mut self, slot: NodeSlot) {
        let row = &mut self.rows[slot.0 as usize];
        row.version = row.version.wrapping_add(1);
        if self.log.len() == LOG_MAX {
            self.log.drain(..LOG_MAX / 2);
            self.log_start += (LOG_MAX / 2) as u64;
        }
        self.log.push(slot.0);
    }
}

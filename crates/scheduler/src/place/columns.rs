//! The nodes as a planner sees them: the store's latest state, less what plans on their way have taken.

use std::{collections::HashMap, sync::Arc};

use berth_model::{
    Index, NodeId,
    device::DevicesHeld,
    node::Node,
    resources::Resources,
    store::{NodeSlot, Store},
};

use super::{
    classes::{ClassId, Classes},
    grid::{Grid, NodeRank, PlaceableNode},
};
use crate::{
    claims::{ClaimScope, Claims},
    devices::Catalog,
};

/// One node; what a decision looks at is in one cache line.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeColumns {
    /// Its id; zero for a slot without a node.
    pub id: NodeId,
    /// Its registration.
    pub registered: Index,
    /// The last change of the node itself.
    changed: Index,
    /// What allocations may have.
    pub capacity: Resources,
    /// What is left for new allocations.
    pub free: Resources,
    /// Its class; none for a slot without a node.
    pub class: Option<ClassId>,
    /// Whether new allocations may be placed here.
    pub ready: bool,
    /// Whether it has devices, or cores that can be had alone.
    has_devices: bool,
    /// Whether the grid has not been updated with its last change.
    is_unsettled: bool,
}

impl NodeColumns {
    /// Its rank among equals.
    pub fn rank(&self, slot: NodeSlot) -> NodeRank {
        NodeRank { registered: self.registered, slot }
    }

    /// What it is to the grid; nothing when it is not ready.
    fn seated(&self, slot: NodeSlot) -> Option<PlaceableNode> {
        let class = self.class.filter(|_| self.ready)?;
        Some(PlaceableNode { rank: self.rank(slot), class, capacity: self.capacity, free: self.free })
    }
}

/// All nodes, by slot.
#[derive(Debug, Default)]
pub struct Columns {
    rows: Vec<NodeColumns>,
    nodes: Vec<Option<Arc<Node>>>,
    /// Ports claimed by plans on their way, by slot.
    claimed_ports: Vec<Vec<u16>>,
    /// What is held of devices and cores, in the store and by plans on their way; no node without either.
    held: HashMap<NodeSlot, DevicesHeld>,
    /// The devices of all nodes.
    catalog: Catalog,
    store_position: u64,
    claims_position: u64,
    classes: Classes,
    /// The nodes that are ready, but for those that are unsettled as they were.
    grid: Grid,
    /// Nodes of whose last change the grid has not been updated with it, each once.
    unsettled: Vec<NodeSlot>,
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
            // Those that were filled here, too: slots are gone once no node is left.
            None => (0..nodes.slots().max(self.rows.len()))
                .filter_map(|at| u32::try_from(at).ok())
                .for_each(|at| self.refresh(NodeSlot(at), store, claims)),
        }
        self.store_position = nodes.changes_end();
        self.claims_position = claims.changes_end();
    }

    fn refresh(&mut self, slot: NodeSlot, store: &Store, claims: &Claims) {
        let at = slot.0 as usize;
        if at >= self.rows.len() {
            self.rows.resize_with(at + 1, NodeColumns::default);
            self.nodes.resize(at + 1, None);
            self.claimed_ports.resize(at + 1, Vec::new());
            self.epoch += 1;
        }
        let before = self.rows[at];
        let Some(node) = store.nodes().row(slot) else {
            self.describe(slot, None);
            return self.set(slot, NodeColumns::default());
        };
        if (before.id, before.changed) != (node.id, node.modify_index) {
            self.describe(slot, store.nodes().detail(slot).map(|detail| &detail.node));
        }
        let claimed = claims.of_node(node.id, store, ClaimScope::All);
        let row = NodeColumns {
            id: node.id,
            registered: node.create_index,
            changed: node.modify_index,
            capacity: node.capacity,
            free: node.free().minus(claimed.resources),
            ready: node.is_ready(),
            ..self.rows[at]
        };
        self.set(slot, row);
        self.claimed_ports[at] = claimed.ports;
        if row.has_devices {
            self.set_held(slot, store, claimed.devices);
            self.refresh_devices(slot);
        }
    }

    fn set_held(&mut self, slot: NodeSlot, store: &Store, claimed: DevicesHeld) {
        let mut held = claimed;
        store.nodes().detail(slot).inspect(|detail| held.add(&detail.devices));
        if held.is_empty() {
            self.held.remove(&slot);
        } else {
            self.held.insert(slot, held);
        }
    }

    /// Tells the catalog what is left of a node that has devices.
    fn refresh_devices(&mut self, slot: NodeSlot) {
        let row = &self.rows[slot.0 as usize];
        let Some(node) = self.nodes[slot.0 as usize].as_ref().filter(|_| row.has_devices) else { return };
        if !node.devices.is_empty() {
            let nothing = DevicesHeld::default();
            let held = self.held.get(&slot).unwrap_or(&nothing);
            self.catalog.set(slot, node, row.free, held);
        }
    }

    fn describe(&mut self, slot: NodeSlot, node: Option<&Arc<Node>>) {
        let at = slot.0 as usize;
        // A change of its status leaves the description as it is.
        let before = self.nodes[at].as_ref();
        if before.zip(node).is_some_and(|(before, now)| Arc::ptr_eq(before, now)) {
            return;
        }
        let before = self.nodes[at].take();
        self.catalog.describe(slot, before.as_deref(), node.map(|node| &**node));
        if let Some(class) = self.rows[at].class {
            self.classes.leave(class);
        }
        let row = &mut self.rows[at];
        row.class = node.map(|node| self.classes.enter(node));
        row.has_devices = node.is_some_and(|node| !(node.devices.is_empty() && node.cores.is_empty()));
        self.nodes[at] = node.cloned();
        self.held.remove(&slot);
        self.epoch += 1;
        self.unsettle(slot);
    }

    fn set(&mut self, slot: NodeSlot, row: NodeColumns) {
        let before = &mut self.rows[slot.0 as usize];
        let is_unsettled = before.is_unsettled;
        let is_moved = before.seated(slot) != row.seated(slot);
        *before = NodeColumns { is_unsettled, ..row };
        if is_moved {
            self.unsettle(slot);
        }
    }

    fn unsettle(&mut self, slot: NodeSlot) {
        let row = &mut self.rows[slot.0 as usize];
        if !std::mem::replace(&mut row.is_unsettled, true) {
            self.unsettled.push(slot);
        }
    }

    /// Tells the grid of all that has changed.
    pub fn settle(&mut self) {
        for slot in self.unsettled.drain(..) {
            let row = &mut self.rows[slot.0 as usize];
            row.is_unsettled = false;
            self.grid.set(slot, row.seated(slot));
        }
    }

    /// A node's row.
    pub fn row(&self, slot: NodeSlot) -> &NodeColumns {
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

    /// The classes of the nodes.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The ready nodes by their capacity, as they were when it was last settled.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The same, to search it.
    pub fn grid_mut(&mut self) -> &mut Grid {
        &mut self.grid
    }

    /// Ports that plans on their way hold on a node.
    pub fn claimed_ports(&self, slot: NodeSlot) -> &[u16] {
        &self.claimed_ports[slot.0 as usize]
    }

    /// Grows when what any node is changes.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What others hold of a node's devices and cores.
    pub fn held(&self, slot: NodeSlot) -> DevicesHeld {
        self.held.get(&slot).cloned().unwrap_or_default()
    }

    /// The devices of all nodes.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The devices of all nodes, to ask for prices or to learn.
    pub fn catalog_mut(&mut self) -> &mut Catalog {
        &mut self.catalog
    }

    /// The plan at work takes capacity.
    pub fn hold(&mut self, slot: NodeSlot, resources: Resources, ports: &[u16], devices: &DevicesHeld) {
        let row = *self.row(slot);
        self.set(slot, NodeColumns { free: row.free.minus(resources), ..row });
        self.claimed_ports[slot.0 as usize].extend_from_slice(ports);
        if !devices.is_empty() {
            self.held.entry(slot).or_default().add(devices);
        }
        self.refresh_devices(slot);
    }

    /// The plan at work gives capacity back.
    pub fn give_back(&mut self, slot: NodeSlot, resources: Resources, ports: &[u16], devices: DevicesHeld) {
        let row = *self.row(slot);
        self.set(slot, NodeColumns { free: row.free.plus(resources), ..row });
        self.claimed_ports[slot.0 as usize].retain(|port| !ports.contains(port));
        if let Some(held) = self.held.get_mut(&slot) {
            held.remove(devices);
        }
        self.refresh_devices(slot);
    }
}

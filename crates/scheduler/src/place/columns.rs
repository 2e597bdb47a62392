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
    grid::{Grid, Pile, Seat},
};
use crate::{claims::Claims, devices::Catalog};

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
    /// The last change of the node itself.
    changed: Index,
}

impl Row {
    /// Its place among equals.
    pub fn seat(&self, slot: NodeSlot) -> Seat {
        Seat { registered: self.registered, slot }
    }
}

/// All nodes, by slot.
#[derive(Debug, Default)]
pub struct Columns {
    rows: Vec<Row>,
    nodes: Vec<Option<(Arc<Node>, ClassId)>>,
    /// The piles of the nodes that are ready.
    piles: Vec<Option<u32>>,
    /// Ports claimed by plans on their way, by slot.
    claimed_ports: Vec<Vec<u16>>,
    /// What is held of devices and cores, in the store and by plans on their way; no node without either.
    held: HashMap<NodeSlot, DevicesHeld>,
    /// The devices of all nodes.
    catalog: Catalog,
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
            self.piles.resize(at + 1, None);
            self.claimed_ports.resize(at + 1, Vec::new());
            self.epoch += 1;
        }
        let mut row = Row::default();
        if let Some(node) = store.nodes().row(slot) {
            let claimed = claims.of_node(node.id, store.index());
            row = Row {
                id: node.id,
                registered: node.create_index,
                capacity: node.capacity,
                free: node.free().minus(claimed.resources),
                ready: node.is_ready(),
                changed: node.modify_index,
            };
            self.claimed_ports[at] = claimed.ports;
            self.set_held(slot, store, claimed.devices);
        }
        let before = &self.rows[at];
        if (before.id, before.changed) != (row.id, row.changed) {
            self.set(slot, Row { ready: false, ..row });
            self.describe(at, store.nodes().detail(slot).map(|detail| &detail.node));
        }
        self.set(slot, row);
        self.refresh_devices(slot);
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
        let Some((node, _)) = &self.nodes[slot.0 as usize] else { return };
        if !node.devices.is_empty() {
            let nothing = DevicesHeld::default();
            let held = self.held.get(&slot).unwrap_or(&nothing);
            self.catalog.set(slot, node, self.rows[slot.0 as usize].free, held);
        }
    }

    fn describe(&mut self, at: usize, node: Option<&Arc<Node>>) {
        // A change of its status leaves the description as it is.
        let before = self.nodes[at].as_ref().map(|(node, _)| node);
        if before.zip(node).is_some_and(|(before, now)| Arc::ptr_eq(before, now)) {
            return;
        }
        let before = self.nodes[at].take();
        let slot = NodeSlot(u32::try_from(at).expect("it was made from a slot"));
        self.catalog.describe(slot, before.as_ref().map(|(node, _)| &**node), node.map(|node| &**node));
        if let Some((_, class)) = before {
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
        let pile = &mut self.piles[slot.0 as usize];
        let shelf = pile.map(|pile| self.grid.pile(pile).shelf);
        if let Some(pile) = pile.take() {
            self.grid.take(pile, before.seat(slot));
        }
        let Some((_, class)) = self.nodes[slot.0 as usize].as_ref().filter(|_| row.ready) else { return };
        let same_shelf = shelf.filter(|_| before.capacity == row.capacity);
        let shelf = same_shelf.unwrap_or_else(|| self.grid.shelf_of(*class, row.capacity));
        *pile = Some(self.grid.put(shelf, row.free, row.seat(slot)));
    }

    /// The pile of a node; none when it is not ready.
    pub fn pile(&self, slot: NodeSlot) -> Option<&Pile> {
        self.piles[slot.0 as usize].map(|pile| self.grid.pile(pile))
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

    /// The plan at work takes room.
    pub fn hold(&mut self, slot: NodeSlot, resources: Resources, ports: &[u16], devices: &DevicesHeld) {
        let row = *self.row(slot);
        self.set(slot, Row { free: row.free.minus(resources), ..row });
        self.claimed_ports[slot.0 as usize].extend_from_slice(ports);
        if !devices.is_empty() {
            self.held.entry(slot).or_default().add(devices);
        }
        self.refresh_devices(slot);
    }

    /// The plan at work gives room back.
    pub fn give_back(&mut self, slot: NodeSlot, resources: Resources, ports: &[u16], devices: DevicesHeld) {
        let row = *self.row(slot);
        self.set(slot, Row { free: row.free.plus(resources), ..row });
        self.claimed_ports[slot.0 as usize].retain(|port| !ports.contains(port));
        if let Some(held) = self.held.get_mut(&slot) {
            held.remove(devices);
        }
        self.refresh_devices(slot);
    }
}

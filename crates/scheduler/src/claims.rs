//! Room that plans have taken and the store does not show yet, so that the next plan does not take it again.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use berth_model::{Index, NodeId, device::DevicesHeld, quota::Usage, resources::Resources, store::Store};

use crate::fairness::Pledges;

/// Names one plan's claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What one placement takes of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The node.
    pub node: NodeId,
    /// What it adds to what the node holds.
    pub resources: Resources,
    /// The ports it adds.
    pub ports: Vec<u16>,
    /// The devices and cores it holds, also those that it takes over.
    pub devices: DevicesHeld,
}

/// What is claimed of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claimed {
    /// Room.
    pub resources: Resources,
    /// Ports.
    pub ports: Vec<u16>,
    /// Devices and cores.
    pub devices: DevicesHeld,
}

impl Claimed {
    /// Adds what one more placement takes.
    pub fn add(&mut self, resources: Resources, ports: &[u16], devices: &DevicesHeld) {
        self.resources = self.resources.plus(resources);
        self.ports.extend_from_slice(ports);
        self.devices.add(devices);
    }
}

/// Changes that a planner can be behind before it must look at every node again.
const CHANGES_MAX: usize = 1 << 16;

/// All claims of plans that are on their way into the store.
#[derive(Debug, Default)]
pub struct Claims {
    tickets: BTreeMap<Ticket, Open>,
    /// At most one for each ticket.
    by_node: HashMap<NodeId, Vec<(Ticket, Claimed)>>,
    next: u64,
    /// The nodes of which claims were added or given back, the latest [`CHANGES_MAX`] of them.
    changes: VecDeque<NodeId>,
    changes_end: u64,
}

#[derive(Debug)]
struct Open {
    /// The entry that carries the plan, once it is proposed.
    index: Option<Index>,
    nodes: Vec<NodeId>,
    /// What it adds to what a namespace holds.
    pledge: Option<(Arc<str>, Usage)>,
    /// Part of it was refused: the state will not show all that is claimed.
    partly_refused: bool,
}

impl Claims {
    /// Takes room for a plan.
    pub fn add(&mut self, claims: impl IntoIterator<Item = Claim>) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        let mut nodes = Vec::new();
        for Claim { node, resources, ports, devices } in claims {
            let of_node = self.by_node.entry(node).or_default();
            // Best fit puts many placements of a plan on one node: they are one claim there.
            match of_node.last_mut().filter(|(of, ..)| *of == ticket) {
                Some((_, claimed)) => claimed.add(resources, &ports, &devices),
                None => {
                    of_node.push((ticket, Claimed { resources, ports, devices }));
                    nodes.push(node);
                    self.note_change(node);
                }
            }
        }
        self.tickets.insert(ticket, Open { index: None, nodes, pledge: None, partly_refused: false });
        ticket
    }

    /// Whether a plan takes room or ports of a state that others have claimed since it was made: it will be refused.
    pub fn overdraw(&self, ticket: Ticket, store: &Store) -> bool {
        let nodes = self.tickets.get(&ticket).into_iter().flat_map(|open| &open.nodes);
        let mut rows = nodes.filter_map(|node| Some(store.node(*node)?.1));
        rows.any(|row| {
            let Claimed { resources, mut ports, .. } = self.of_node(row.id, store.index());
            ports.sort_unstable();
            resources.exceeds(row.free()).is_some() || ports.windows(2).any(|pair| pair[0] == pair[1])
        })
    }

    /// The plan adds that much to what a namespace holds.
    pub fn pledge(&mut self, ticket: Ticket, namespace: &Arc<str>, usage: Usage) {
        if let Some(open) = self.tickets.get_mut(&ticket) {
            open.pledge = Some((namespace.clone(), usage));
        }
    }

    /// What plans add to what namespaces hold that a state at `index` does not show.
    pub fn pledges(&self, index: Index) -> Pledges {
        let mut pledges = Pledges::new();
        let open = self.tickets.values().filter(|open| open.index.is_none_or(|i| i > index));
        for (namespace, usage) in open.filter_map(|open| open.pledge.as_ref()) {
            pledges.entry(namespace.clone()).or_default().add(usage);
        }
        pledges
    }

    /// The plan stands in the entry of this index: a state at or after it shows what was claimed.
    pub fn proposed(&mut self, ticket: Ticket, index: Index) {
        if let Some(open) = self.tickets.get_mut(&ticket) {
            open.index = Some(index);
        }
    }

    /// Part of the plan was refused: what that claimed is free once the rest shows.
    pub fn partly_refused(&mut self, ticket: Ticket) {
        if let Some(open) = self.tickets.get_mut(&ticket) {
            open.partly_refused = true;
        }
    }

    /// The plan came to nothing. Returns the nodes on which room is free again.
    pub fn remove(&mut self, ticket: Ticket) -> Vec<NodeId> {
        let nodes = self.forget(ticket);
        nodes.iter().for_each(|node| self.note_change(*node));
        nodes
    }

    fn forget(&mut self, ticket: Ticket) -> Vec<NodeId> {
        let Some(open) = self.tickets.remove(&ticket) else { return Vec::new() };
        for node in &open.nodes {
            if let Some(claims) = self.by_node.get_mut(node) {
                claims.retain(|(of, _)| *of != ticket);
                if claims.is_empty() {
                    self.by_node.remove(node);
                }
            }
        }
        open.nodes
    }

    /// Drops claims that every state at or after `index` shows.
    pub fn settle(&mut self, index: Index) {
        let settled = self.tickets.iter().filter(|(_, open)| open.index.is_some_and(|i| i <= index));
        let settled: Vec<(Ticket, bool)> =
            settled.map(|(ticket, open)| (*ticket, open.partly_refused)).collect();
        for (ticket, partly_refused) in settled {
            let nodes = self.forget(ticket);
            if partly_refused {
                nodes.into_iter().for_each(|node| self.note_change(node));
            }
        }
    }

    /// What is claimed of a node and not shown by a state at `index`.
    pub fn of_node(&self, node: NodeId, index: Index) -> Claimed {
        let mut sum = Claimed::default();
        for (ticket, claimed) in self.by_node.get(&node).into_iter().flatten() {
            if self.tickets.get(ticket).and_then(|open| open.index).is_none_or(|i| i > index) {
                sum.add(claimed.resources, &claimed.ports, &claimed.devices);
            }
        }
        sum
    }

    /// The position after the last change; pass it to [`Self::changes_since`] later.
    pub fn changes_end(&self) -> u64 {
        self.changes_end
    }

    /// The nodes of which claims changed since a position; none when that is too long ago.
    pub fn changes_since(&self, position: u64) -> Option<impl Iterator<Item = NodeId>> {
        let behind = usize::try_from(self.changes_end - position).ok()?;
        let from = self.changes.len().checked_sub(behind)?;
        Some(self.changes.range(from..).copied())
    }

    fn note_change(&mut self, node: NodeId) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(node);
        self.changes_end += 1;
    }

    /// The nodes of which anything is claimed.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.by_node.keys().copied()
    }
}

#[cfg(test)]
mod tests;

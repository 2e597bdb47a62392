//! Room that plans have taken and the store does not show yet, so that the next plan does not take it again.

mod inherited;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use berth_model::{
    AllocId, Index, NodeId, device::DevicesHeld, quota::Usage, resources::Resources, store::Store,
};

use crate::fairness::Pledges;
pub use inherited::{Inherited, RoomShare};

/// Names one plan's claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What one placement takes of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The node.
    pub node: NodeId,
    /// All that it holds, also what its predecessors leave it.
    pub holds: Usage,
    /// Its ports.
    pub ports: Vec<u16>,
    /// Its devices and cores.
    pub devices: DevicesHeld,
    /// Allocations of the node that end before it begins. Their room is its own once they have ended; as long as a state
    /// shows them, it is counted for them.
    pub after: Vec<AllocId>,
}

/// What is claimed of one node, beside what a state shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claimed {
    /// Room.
    pub resources: Resources,
    /// Ports.
    pub ports: Vec<u16>,
    /// Devices and cores.
    pub devices: DevicesHeld,
    /// Of whose room it already is that nobody adds.
    pub inherited: Inherited,
}

impl Claimed {
    /// Adds what one more placement takes, of which `share` is counted.
    pub fn add(&mut self, share: RoomShare, ports: &[u16], devices: &DevicesHeld) {
        self.resources = self.resources.plus(share.added);
        self.ports.extend_from_slice(ports);
        self.devices.add(devices);
        self.inherited.take(share);
    }
}

/// What a plan claims of one node.
#[derive(Debug)]
struct NodeClaim {
    ticket: Ticket,
    /// Room of those without predecessors.
    resources: Resources,
    ports: Vec<u16>,
    devices: DevicesHeld,
    successors: Vec<Successor>,
}

/// A placement that comes after others.
#[derive(Debug)]
struct Successor {
    holds: Usage,
    after: Vec<AllocId>,
}

impl NodeClaim {
    fn new(ticket: Ticket) -> Self {
        let (ports, devices) = (Vec::new(), DevicesHeld::default());
        Self { ticket, resources: Resources::ZERO, ports, devices, successors: Vec::new() }
    }

    fn add(&mut self, claim: Claim) {
        self.ports.extend(claim.ports);
        self.devices.add(&claim.devices);
        if claim.after.is_empty() {
            self.resources = self.resources.plus(claim.holds.room());
        } else {
            self.successors.push(Successor { holds: claim.holds, after: claim.after });
        }
    }

    fn add_to(&self, sum: &mut Claimed, store: &Store, node: NodeId) {
        sum.resources = sum.resources.plus(self.resources);
        sum.ports.extend_from_slice(&self.ports);
        sum.devices.add(&self.devices);
        let Some(node) = store.nodes().find(node).filter(|_| !self.successors.is_empty()) else { return };
        for Successor { holds, after } in &self.successors {
            let share = sum.inherited.share(store, node, holds.room(), after);
            sum.resources = sum.resources.plus(share.added);
            sum.inherited.take(share);
        }
    }
}

/// Changes that a planner can be behind before it must look at every node again.
const CHANGES_MAX: usize = 1 << 16;

/// All claims of plans that are on their way into the store.
#[derive(Debug, Default)]
pub struct Claims {
    tickets: BTreeMap<Ticket, Open>,
    /// At most one for each ticket.
    by_node: HashMap<NodeId, Vec<NodeClaim>>,
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
    namespace: Arc<str>,
    /// What those without predecessors add to what the namespace holds.
    usage: Usage,
    /// Part of it was refused: the state will not show all that is claimed.
    partly_refused: bool,
}

impl Open {
    /// Whether a state at `index` does not show it yet.
    fn is_ahead_of(&self, index: Index) -> bool {
        self.index.is_none_or(|at| at > index)
    }
}

impl Claims {
    /// Takes room for a plan of a job of a namespace.
    pub fn add(&mut self, namespace: &Arc<str>, claims: impl IntoIterator<Item = Claim>) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        let (mut nodes, mut usage) = (Vec::new(), Usage::default());
        for claim in claims {
            let node = claim.node;
            if claim.after.is_empty() {
                usage.add(&claim.holds);
            }
            let of_node = self.by_node.entry(node).or_default();
            // Best fit puts many placements of a plan on one node: they are one claim there.
            let is_first = of_node.last().is_none_or(|last| last.ticket != ticket);
            if is_first {
                of_node.push(NodeClaim::new(ticket));
            }
            if let Some(last) = of_node.last_mut() {
                last.add(claim);
            }
            if is_first {
                nodes.push(node);
                self.note_change(node);
            }
        }
        let namespace = namespace.clone();
        self.tickets.insert(ticket, Open { index: None, nodes, namespace, usage, partly_refused: false });
        ticket
    }

    /// Whether a plan takes room or ports of a state that others have claimed since it was made: it will be refused.
    pub fn overdraw(&self, ticket: Ticket, store: &Store) -> bool {
        let nodes = self.tickets.get(&ticket).into_iter().flat_map(|open| &open.nodes);
        let mut rows = nodes.filter_map(|node| Some(store.node(*node)?.1));
        rows.any(|row| {
            let Claimed { resources, mut ports, .. } = self.of_node(row.id, store);
            ports.sort_unstable();
            resources.exceeds(row.free()).is_some() || ports.windows(2).any(|pair| pair[0] == pair[1])
        })
    }

    /// What plans add to what namespaces hold that a state does not show.
    pub fn pledges(&self, store: &Store) -> Pledges {
        let mut pledges = Pledges::default();
        for (ticket, open) in self.tickets.iter().filter(|(_, open)| open.is_ahead_of(store.index())) {
            pledges.add(&open.namespace, &open.usage);
            for successor in self.successors(*ticket, open) {
                pledges.add_successor(store, &open.namespace, &successor.holds, &successor.after);
            }
        }
        pledges
    }

    fn successors<'a>(&'a self, ticket: Ticket, open: &'a Open) -> impl Iterator<Item = &'a Successor> {
        let claims = open.nodes.iter().filter_map(|node| self.by_node.get(node)).flatten();
        claims.filter(move |claim| claim.ticket == ticket).flat_map(|claim| &claim.successors)
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
                claims.retain(|claim| claim.ticket != ticket);
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

    /// What is claimed of a node beside what a state shows.
    pub fn of_node(&self, node: NodeId, store: &Store) -> Claimed {
        let mut sum = Claimed::default();
        for claim in self.by_node.get(&node).into_iter().flatten() {
            if self.tickets.get(&claim.ticket).is_none_or(|open| open.is_ahead_of(store.index())) {
                claim.add_to(&mut sum, store, node);
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

    /// Whether nothing is claimed of any node.
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }
}

#[cfg(test)]
mod tests;

//! Capacity that plans have taken and the store does not show yet, so that the next plan does not take it again.
//!
//! One ledger for all who take capacity: a claim is a planner's until the applier has decided on its plan, then the applier's
//! until an entry of the log carries it, then that entry's until the state shows it. It changes hands in one step, and is
//! never with nobody nor with two.

mod inherited;
mod ledger;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use berth_model::{
    AllocId, Index, NodeId, alloc::Placement, device::DevicesHeld, quota::Usage, resources::Resources,
    store::Store,
};

use crate::fairness::Pledges;
pub use inherited::{Inherited, SuccessorShare};
pub use ledger::Ledger;

/// Who holds a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimHolder {
    /// A planner: nobody has decided on its plan yet.
    Planner,
    /// The applier: it has passed, and waits for an entry of the log.
    Applier,
    /// The entry of this index, until the state shows it.
    Entry(Index),
}

/// Which claims are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimScope {
    /// Everybody's: for planners, which keep out of each other's way.
    All,
    /// What has passed: for the applier, which decides on one plan after the other.
    Passed,
}

/// Names one plan's claims, or those of a part of it.
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
    /// Allocations of the node that end before it begins. Their capacity is its own once they have ended; as long as a state
    /// shows them, it is counted for them.
    pub after: Vec<AllocId>,
}

impl Claim {
    /// What a placement takes that holds so much.
    pub fn of(placement: &Placement, holds: Usage) -> Self {
        Self {
            node: placement.node,
            holds,
            ports: placement.ports.clone(),
            devices: DevicesHeld::of(&placement.devices, &placement.cores),
            after: placement.after.clone(),
        }
    }
}

/// What is claimed of one node, beside what a state shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimedResources {
    /// Cpu, memory and disk.
    pub resources: Resources,
    /// Ports.
    pub ports: Vec<u16>,
    /// Devices and cores.
    pub devices: DevicesHeld,
    /// Of whose capacity it already is that nobody adds.
    pub inherited: Inherited,
}

impl ClaimedResources {
    /// Adds what one more placement takes, of which `share` is counted.
    pub fn add(&mut self, share: SuccessorShare, ports: &[u16], devices: &DevicesHeld) {
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
    /// Capacity of those without predecessors.
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

    fn add_to(&self, sum: &mut ClaimedResources, store: &Store, node: NodeId) {
        sum.resources = sum.resources.plus(self.resources);
        sum.ports.extend_from_slice(&self.ports);
        sum.devices.add(&self.devices);
        if self.successors.is_empty() {
            return;
        }
        let Some(node) = store.nodes().find(node) else { return };
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
    tickets: BTreeMap<Ticket, TicketClaims>,
    /// At most one for each ticket.
    by_node: HashMap<NodeId, Vec<NodeClaim>>,
    next: u64,
    passed: u64,
    /// The nodes of which claims were added or given back, the latest [`CHANGES_MAX`] of them.
    changes: VecDeque<NodeId>,
    changes_end: u64,
    freed: FreedClaims,
}

/// What was claimed and did not come true: whoever was refused for its sake may have it now.
#[derive(Debug, Default)]
pub struct FreedClaims {
    /// The node.
    pub nodes: BTreeSet<NodeId>,
    /// Of which namespaces it was.
    pub namespaces: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct TicketClaims {
    holder: ClaimHolder,
    /// Among those that have passed; entries are applied in this order.
    order: Option<u64>,
    nodes: Vec<NodeId>,
    namespace: Arc<str>,
    /// What those without predecessors add to what the namespace holds.
    usage: Usage,
    /// The state at its index does not show all that is claimed: it refused the plan.
    is_refused: bool,
}

impl TicketClaims {
    /// Whether it counts beside a state at `index`.
    fn counts(&self, index: Index, counted: ClaimScope) -> bool {
        match self.holder {
            ClaimHolder::Planner => counted == ClaimScope::All,
            ClaimHolder::Applier => true,
            ClaimHolder::Entry(at) => at > index,
        }
    }

    /// Predecessors leave their capacity in this order.
    fn rank(&self) -> u64 {
        self.order.unwrap_or(u64::MAX)
    }
}

impl Claims {
    /// Takes capacity for a plan of a job of a namespace.
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
        let (holder, namespace) = (ClaimHolder::Planner, namespace.clone());
        let open = TicketClaims { holder, order: None, nodes, namespace, usage, is_refused: false };
        self.tickets.insert(ticket, open);
        ticket
    }

    /// Whether a plan takes capacity or ports of a state that others have claimed since it was made: it will be refused.
    pub fn overdraw(&self, ticket: Ticket, store: &Store) -> bool {
        let nodes = self.tickets.get(&ticket).into_iter().flat_map(|open| &open.nodes);
        let mut rows = nodes.filter_map(|node| Some(store.node(*node)?.1));
        rows.any(|row| {
            let ClaimedResources { resources, mut ports, .. } = self.of_node(row.id, store, ClaimScope::All);
            ports.sort_unstable();
            resources.exceeds(row.free()).is_some() || ports.windows(2).any(|pair| pair[0] == pair[1])
        })
    }

    /// What plans add to what namespaces hold that a state does not show.
    pub fn pledges(&self, store: &Store, counted: ClaimScope) -> Pledges {
        let mut pledges = Pledges::default();
        let open = self.tickets.iter().filter(|(_, open)| open.counts(store.index(), counted));
        let mut open: Vec<(&Ticket, &TicketClaims)> = open.collect();
        open.sort_by_key(|(_, open)| open.rank());
        for (ticket, open) in open {
            pledges.add(&open.namespace, &open.usage);
            for successor in self.successors(*ticket, open) {
                pledges.add_successor(store, &open.namespace, &successor.holds, &successor.after);
            }
        }
        pledges
    }

    fn successors<'a>(
        &'a self,
        ticket: Ticket,
        open: &'a TicketClaims,
    ) -> impl Iterator<Item = &'a Successor> {
        let claims = open.nodes.iter().filter_map(|node| self.by_node.get(node)).flatten();
        claims.filter(move |claim| claim.ticket == ticket).flat_map(|claim| &claim.successors)
    }

    /// Who holds a claim; none once it is settled or released.
    pub fn holder(&self, ticket: Ticket) -> Option<ClaimHolder> {
        self.tickets.get(&ticket).map(|open| open.holder)
    }

    /// All that a planner claimed has passed: it is the applier's. Whether the ledger knows of it.
    pub fn pass(&mut self, ticket: Ticket) -> bool {
        let Some(open) = self.tickets.get_mut(&ticket).filter(|open| open.holder == ClaimHolder::Planner)
        else {
            return false;
        };
        self.passed += 1;
        (open.holder, open.order) = (ClaimHolder::Applier, Some(self.passed));
        true
    }

    /// What a planner claimed has passed in part, or goes into several entries: these claims replace its own,
    /// and are the applier's. What was refused is free at once.
    pub fn pass_parts<C: IntoIterator<Item = Claim>>(
        &mut self,
        ticket: Ticket,
        namespace: &Arc<str>,
        parts: impl IntoIterator<Item = C>,
    ) -> Vec<Ticket> {
        self.discard(ticket);
        let parts = parts.into_iter().map(|claims| {
            let ticket = self.add(namespace, claims);
            self.pass(ticket);
            ticket
        });
        parts.collect()
    }

    /// The entry of this index carries it: a state at or after it shows what was claimed.
    pub fn proposed(&mut self, ticket: Ticket, index: Index) {
        if let Some(open) = self.tickets.get_mut(&ticket) {
            open.holder = ClaimHolder::Entry(index);
        }
    }

    /// The state refused a plan of this entry: what it claimed is free once the entry shows.
    pub fn refused(&mut self, index: Index) {
        let of_entry = self.tickets.values_mut().filter(|open| open.holder == ClaimHolder::Entry(index));
        of_entry.for_each(|open| open.is_refused = true);
    }

    /// The entry is not in the log: nobody holds what it carried.
    pub fn not_written(&mut self, index: Index) {
        self.release_all(|holder| holder == ClaimHolder::Entry(index));
    }

    /// A leadership has ended, and with it all that it passed. Planners' claims stay until their plans come.
    pub fn end_term(&mut self) {
        self.release_all(|holder| holder != ClaimHolder::Planner);
    }

    fn release_all(&mut self, which: impl Fn(ClaimHolder) -> bool) {
        let tickets = self.tickets.iter().filter(|(_, open)| which(open.holder));
        let tickets: Vec<Ticket> = tickets.map(|(ticket, _)| *ticket).collect();
        tickets.into_iter().for_each(|ticket| drop(self.release(ticket)));
    }

    /// Nothing of a planner's plan is committed; claims that it holds no more are left alone.
    pub fn discard(&mut self, ticket: Ticket) {
        if self.holder(ticket) == Some(ClaimHolder::Planner) {
            self.release(ticket);
        }
    }

    /// Nothing of it is committed, whoever holds it. Returns the nodes on which capacity is free again.
    pub fn release(&mut self, ticket: Ticket) -> Vec<NodeId> {
        let Some(open) = self.forget(ticket) else { return Vec::new() };
        self.free(&open);
        open.nodes
    }

    /// What was freed since this was asked last.
    pub fn take_freed(&mut self) -> FreedClaims {
        std::mem::take(&mut self.freed)
    }

    fn free(&mut self, open: &TicketClaims) {
        open.nodes.iter().for_each(|node| self.note_change(*node));
        self.freed.nodes.extend(&open.nodes);
        if !open.nodes.is_empty() && !self.freed.namespaces.contains(&open.namespace) {
            self.freed.namespaces.insert(open.namespace.clone());
        }
    }

    fn forget(&mut self, ticket: Ticket) -> Option<TicketClaims> {
        let open = self.tickets.remove(&ticket)?;
        for node in &open.nodes {
            if let Some(claims) = self.by_node.get_mut(node) {
                claims.retain(|claim| claim.ticket != ticket);
                if claims.is_empty() {
                    self.by_node.remove(node);
                }
            }
        }
        Some(open)
    }

    /// Drops claims that every state at or after `index` shows.
    pub fn settle(&mut self, index: Index) {
        let is_shown = |open: &TicketClaims| matches!(open.holder, ClaimHolder::Entry(at) if at <= index);
        let settled = self.tickets.iter().filter(|(_, open)| is_shown(open));
        let settled: Vec<Ticket> = settled.map(|(ticket, _)| *ticket).collect();
        for ticket in settled {
            if let Some(open) = self.forget(ticket).filter(|open| open.is_refused) {
                self.free(&open);
            }
        }
    }

    /// What is claimed of a node beside what a state shows.
    pub fn of_node(&self, node: NodeId, store: &Store, counted: ClaimScope) -> ClaimedResources {
        let mut sum = ClaimedResources::default();
        let claims = self.by_node.get(&node).map_or(&[][..], Vec::as_slice);
        let open = |claim: &NodeClaim| self.tickets.get(&claim.ticket);
        let counts = |claim: &&NodeClaim| open(claim).is_some_and(|o| o.counts(store.index(), counted));
        if claims.iter().filter(|claim| !claim.successors.is_empty()).count() < 2 {
            claims.iter().filter(counts).for_each(|claim| claim.add_to(&mut sum, store, node));
            return sum;
        }
        let mut in_order: Vec<&NodeClaim> = claims.iter().filter(counts).collect();
        in_order.sort_by_key(|claim| open(claim).map(TicketClaims::rank));
        in_order.into_iter().for_each(|claim| claim.add_to(&mut sum, store, node));
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

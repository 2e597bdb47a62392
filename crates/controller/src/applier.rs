//! The one place where plans become decisions: each is checked against the latest state and what is on its way into it.

mod parts;
mod refused;
mod replaced;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use berth_model::{
    AllocId, Index, JobKey, NodeId,
    alloc::{Placement, StopReason},
    command::{Command, EvalOutcome, NextEval},
    device::DevicesHeld,
    eval::EvalStatus,
    job::Group,
    quota::Usage,
    store::{NodeDetail, NodeSlot, Store},
};
use berth_scheduler::{
    Claim, ClaimScope, ClaimedResources, Claims, Ledger, Plan, Ticket,
    fairness::{Charge, Headroom, Pledges},
};

use parts::parts;
pub use refused::RefusedPlacements;

/// A plan after the check.
#[derive(Debug)]
pub(crate) struct CheckedPlan {
    /// What to write, in order, each with its claims; the last one holds the outcome when all of the plan is.
    pub parts: Vec<(Command, Option<Ticket>)>,
    /// What was refused; what it asked for is to be planned again.
    pub refused: RefusedPlacements,
    /// How many placements passed.
    pub passed: usize,
    /// Nothing was refused, and the plan is all that its evaluation needs; else that is to be planned again.
    pub done: bool,
}

impl CheckedPlan {
    /// Nothing of the plan is committed.
    fn nothing(refused: RefusedPlacements) -> Self {
        Self { parts: Vec::new(), refused, passed: 0, done: false }
    }
}

/// What of a plan fits.
#[derive(Debug, Default)]
struct PassedPlacements {
    placements: Vec<Placement>,
    /// Resources that each holds, in the order of `placements`.
    holds: Vec<Usage>,
    /// All of it holds what its planner claimed.
    is_as_claimed: bool,
    refused: RefusedPlacements,
}

/// What a plan takes while it is checked: of its nodes with what else is claimed of them, and of the quotas of its
/// namespace.
struct PlanUsage {
    nodes: HashMap<NodeId, ClaimedResources>,
    headroom: Headroom,
}

impl PlanUsage {
    fn of(store: &Store, job: &JobKey, claims: &Claims) -> Self {
        let pledges = match store.quotas().is_empty() {
            true => Pledges::default(),
            false => claims.pledges(store, ClaimScope::Passed),
        };
        Self { nodes: HashMap::new(), headroom: Headroom::of(store, &job.namespace, &pledges) }
    }

    /// What a placement adds to what its namespace holds; none when a quota does not allow it.
    fn charge(&self, store: &Store, group: &Group, node: NodeSlot, placement: &Placement) -> Option<Charge> {
        if self.headroom.is_unlimited() {
            return Some(Charge::default());
        }
        let charge = self.headroom.charge_of(store, group, node, &placement.after);
        self.headroom.check(&charge.usage).is_ok().then_some(charge)
    }
}

/// Checks plans. What has passed is the applier's in the ledger, then an entry's, until the state shows it.
#[derive(Debug, Default)]
pub(crate) struct Applier {
    ledger: Ledger,
}

impl Applier {
    /// One that decides on what is claimed in this ledger.
    pub fn new(ledger: Ledger) -> Self {
        Self { ledger }
    }

    /// Decides what of a plan is committed. Of its claims only what passed is left. `becomes` is what its evaluation is
    /// once all of it is.
    pub fn check(
        &mut self,
        store: &Store,
        mut plan: Plan,
        ticket: Ticket,
        (becomes, next): (EvalStatus, Vec<NextEval>),
    ) -> CheckedPlan {
        let mut claims = self.ledger.lock();
        if store.job(&plan.job).is_none_or(|row| row.current().version != plan.job_version) {
            claims.discard(ticket);
            return CheckedPlan::nothing(RefusedPlacements {
                count: plan.placements.len().max(1),
                nodes: Vec::new(),
            });
        }
        let passing = passing(&claims, store, &plan);
        let PassedPlacements { placements, holds, is_as_claimed, refused } =
            replaced::keep(&mut plan.stops, passing);
        if plan.all_at_once && refused.count > 0 {
            claims.discard(ticket);
            return CheckedPlan::nothing(refused);
        }
        let passed = placements.len();
        // What nobody takes the capacity of need not be preempted.
        let needed: HashSet<AllocId> =
            placements.iter().flat_map(|placement| &placement.after).copied().collect();
        plan.stops.retain(|stop| stop.reason != StopReason::Preempted || needed.contains(&stop.alloc));
        let done = refused.count == 0 && !plan.more;
        let outcome = done.then(|| EvalOutcome {
            status: becomes,
            description: String::new(),
            failures: std::mem::take(&mut plan.failures).into(),
            next,
        });
        let namespace = plan.job.namespace.clone();
        let parts = parts(plan, placements, outcome);
        let parts = match is_as_claimed && passed > 0 && parts.len() == 1 && claims.pass(ticket) {
            true => parts.into_iter().map(|part| (part, Some(ticket))).collect(),
            false => claimed_parts(&mut claims, ticket, &namespace, parts, holds),
        };
        CheckedPlan { parts, refused, passed, done }
    }

    /// The entry of this index carries a part.
    pub fn proposed(&mut self, ticket: Ticket, index: Index) {
        self.ledger.lock().proposed(ticket, index);
    }

    /// The entry is applied; `refused` when the state turned something in it away.
    pub fn applied(&mut self, index: Index, refused: bool) {
        if refused {
            self.ledger.lock().refused(index);
        }
    }

    /// The entry is not in the log.
    pub fn not_written(&mut self, index: Index) {
        self.ledger.lock().not_written(index);
    }

    /// Nothing of a plan, or of a part of it, is committed.
    pub fn release(&mut self, ticket: Ticket) {
        self.ledger.lock().release(ticket);
    }

    /// The leadership has ended.
    pub fn end(self) {
        self.ledger.lock().end_term();
    }
}

/// Each part with claims of its own, in place of the plan's.
fn claimed_parts(
    claims: &mut Claims,
    ticket: Ticket,
    namespace: &Arc<str>,
    parts: Vec<Command>,
    holds: Vec<Usage>,
) -> Vec<(Command, Option<Ticket>)> {
    let mut holds = holds.into_iter();
    let of_parts: Vec<Vec<Claim>> = parts
        .iter()
        .map(|part| placements_of(part).iter().zip(holds.by_ref()).map(|(p, h)| Claim::of(p, h)).collect())
        .collect();
    let tickets = claims.pass_parts(ticket, namespace, of_parts);
    parts.into_iter().zip(tickets.into_iter().map(Some)).collect()
}

fn placements_of(part: &Command) -> &[Placement] {
    if let Command::CommitPlan(record) = part { &record.placements } else { &[] }
}

/// The placements that fit, with what they hold.
fn passing(claims: &Claims, store: &Store, plan: &Plan) -> PassedPlacements {
    let mut passing = PassedPlacements { is_as_claimed: true, ..PassedPlacements::default() };
    let Some(row) = store.job(&plan.job) else { return passing };
    let mut usage = PlanUsage::of(store, &plan.job, claims);
    for (at, placement) in plan.placements.iter().enumerate() {
        let group = row.placed_by(placement, plan.job_version).map(|(_, group)| group);
        match group.and_then(|group| fits(claims, store, group, placement, &mut usage)) {
            Some(holds) => {
                passing.is_as_claimed &= plan.holds.get(at) == Some(&holds);
                passing.placements.push(placement.clone());
                passing.holds.push(holds);
            }
            None => passing.refused.add(placement.node),
        }
    }
    passing.is_as_claimed &= passing.refused.count == 0;
    passing
}

/// What a placement holds; none when it does not fit.
fn fits(
    claims: &Claims,
    store: &Store,
    group: &Group,
    placement: &Placement,
    taken: &mut PlanUsage,
) -> Option<Usage> {
    let (slot, row) = store.node(placement.node).filter(|(_, row)| row.is_ready())?;
    let detail = store.nodes().detail(slot)?;
    let charge = taken.charge(store, group, slot, placement)?;
    let claimed =
        taken.nodes.entry(row.id).or_insert_with(|| claims.of_node(row.id, store, ClaimScope::Passed));
    let holds = group.resources_on(&detail.node);
    let share = claimed.inherited.share(store, slot, holds, &placement.after);
    if share.added.exceeds(row.free().minus(claimed.resources)).is_some() {
        return None;
    }
    if !ports_are_free(store, (slot, detail), placement, claimed) {
        return None;
    }
    let devices = DevicesHeld::of(&placement.devices, &placement.cores);
    if !devices.is_empty() {
        let mut held = DevicesHeld::clone(&detail.devices);
        held.add(&claimed.devices);
        held.remove(store.devices_left_by(slot, placement.after.iter().copied()));
        if detail.node.lacks_of(placement, &held).is_some() {
            return None;
        }
    }
    claimed.add(share, &placement.ports, &devices);
    taken.headroom.take(charge);
    Some(Usage::of(holds, group))
}

/// Whether nobody has the ports of a placement but those that it comes after.
fn ports_are_free(
    store: &Store,
    (slot, node): (NodeSlot, &NodeDetail),
    placement: &Placement,
    claimed: &ClaimedResources,
) -> bool {
    if placement.ports.is_empty() {
        return true;
    }
    let before = placement.after.iter().filter_map(|id| store.alloc(*id));
    let living = before.filter(|(_, row)| row.node == slot && !row.is_terminal());
    let inherited: Vec<u16> = living.flat_map(|(slot, _)| store.ports_to_promise(slot)).collect();
    placement.ports.iter().all(|port| {
        (node.ports.binary_search(port).is_err() || inherited.contains(port))
            && !claimed.ports.contains(port)
            && node.node.reserved_ports.binary_search(port).is_err()
    })
}

#[cfg(test)]
mod tests;

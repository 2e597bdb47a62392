//! The one place where plans become decisions: each is checked against the latest state and what is on its way into it.

mod parts;
mod refused;

use std::collections::{HashMap, HashSet};

use berth_model::{
    AllocId, Index, JobKey, NodeId,
    alloc::{Placement, StopReason},
    command::{Command, EvalOutcome, NextEval},
    device::DevicesHeld,
    eval::EvalStatus,
    job::{Group, Job},
    quota::Usage,
    store::{JobRow, NodeDetail, NodeSlot, Store},
};
use berth_scheduler::{
    Claim, Claimed, Claims, Plan, Ticket,
    fairness::{Charge, Headroom, Pledges},
};

use crate::devices::{are_free, left_by};

use parts::parts;
pub use refused::Refused;

/// A plan after the check.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What to write, in order; the last one holds the outcome when all of the plan is.
    pub parts: Vec<Command>,
    /// What was refused; what it asked for is to be planned again.
    pub refused: Refused,
    /// How many placements passed.
    pub passed: usize,
    /// Nothing was refused, and the plan is all that its evaluation needs; else that is to be planned again.
    pub done: bool,
    /// The claims of what passed.
    pub ticket: Option<Ticket>,
}

impl Verdict {
    /// Nothing of the plan is committed.
    fn nothing(refused: Refused) -> Self {
        Self { parts: Vec::new(), refused, passed: 0, done: false, ticket: None }
    }
}

/// What of a plan fits.
#[derive(Debug, Default)]
struct Passing {
    placements: Vec<Placement>,
    claims: Vec<Claim>,
    refused: Refused,
}

/// What a plan takes while it is checked: of its nodes with what else is claimed of them, and of the quotas of its
/// namespace.
struct Taken {
    nodes: HashMap<NodeId, Claimed>,
    headroom: Headroom,
}

impl Taken {
    fn of(store: &Store, job: &JobKey, on_the_way: &Claims) -> Self {
        let pledges = if store.quotas().is_empty() { Pledges::default() } else { on_the_way.pledges(store) };
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

/// Checks plans.
#[derive(Debug, Default)]
pub(crate) struct Applier {
    /// What has passed and the store does not show yet.
    on_the_way: Claims,
    by_index: HashMap<Index, Vec<Ticket>>,
}

impl Applier {
    /// Decides what of a plan is committed.
    pub fn check(&mut self, store: &Store, mut plan: Plan, next: Vec<NextEval>) -> Verdict {
        if store.job(&plan.job).is_none_or(|row| row.current().version != plan.job_version) {
            let refused = Refused { count: plan.placements.len().max(1), nodes: Vec::new() };
            return Verdict::nothing(refused);
        }
        let Passing { placements: passing, claims, refused } = self.passing(store, &plan);
        if plan.all_at_once && refused.count > 0 {
            return Verdict::nothing(refused);
        }
        let passed = passing.len();
        let ticket = (!claims.is_empty()).then(|| self.on_the_way.add(&plan.job.namespace, claims));
        // What nobody takes the room of need not be pushed out.
        let needed: HashSet<AllocId> =
            passing.iter().flat_map(|placement| &placement.after).copied().collect();
        plan.stops.retain(|stop| stop.reason != StopReason::Preempted || needed.contains(&stop.alloc));
        let done = refused.count == 0 && !plan.more;
        let outcome = done.then(|| EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: plan.failures.clone(),
            next,
        });
        Verdict { parts: parts(plan, passing, outcome), refused, passed, done, ticket }
    }

    /// The claims stand in the entry of this index.
    pub fn proposed(&mut self, ticket: Ticket, index: Index) {
        self.on_the_way.proposed(ticket, index);
        self.by_index.entry(index).or_default().push(ticket);
    }

    /// The store shows everything up to this index.
    pub fn applied(&mut self, index: Index) {
        self.on_the_way.settle(index);
        self.by_index.retain(|at, _| *at > index);
    }

    /// The entry is not in the log.
    pub fn not_written(&mut self, index: Index) {
        for ticket in self.by_index.remove(&index).unwrap_or_default() {
            self.on_the_way.remove(ticket);
        }
    }

    /// The placements that fit, with what they claim.
    fn passing(&self, store: &Store, plan: &Plan) -> Passing {
        let mut passing = Passing::default();
        let Some(job) = store.job(&plan.job).map(JobRow::job) else { return passing };
        let mut taken = Taken::of(store, &plan.job, &self.on_the_way);
        for placement in &plan.placements {
            match self.fits(store, job, placement, &mut taken) {
                Some(claim) => {
                    passing.placements.push(placement.clone());
                    passing.claims.push(claim);
                }
                None => passing.refused.add(placement.node),
            }
        }
        passing
    }

    fn fits(&self, store: &Store, job: &Job, placement: &Placement, taken: &mut Taken) -> Option<Claim> {
        let (slot, row) = store.node(placement.node).filter(|(_, row)| row.is_ready())?;
        let group = job.groups.get(usize::from(placement.group))?;
        let detail = store.nodes().detail(slot)?;
        let charge = taken.charge(store, group, slot, placement)?;
        let claimed = taken.nodes.entry(row.id).or_insert_with(|| self.on_the_way.of_node(row.id, store));
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
            held.remove(left_by(store, slot, &placement.after));
            if !are_free(&detail.node, placement, &held) {
                return None;
            }
        }
        claimed.add(share, &placement.ports, &devices);
        taken.headroom.take(charge);
        Some(Claim {
            node: row.id,
            holds: Usage::of(holds, group),
            ports: placement.ports.clone(),
            devices,
            after: placement.after.clone(),
        })
    }
}

/// Whether nobody has the ports of a placement but those that it comes after.
fn ports_are_free(
    store: &Store,
    (slot, node): (NodeSlot, &NodeDetail),
    placement: &Placement,
    claimed: &Claimed,
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

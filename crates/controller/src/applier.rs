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
    job::Job,
    quota::Usage,
    resources::Resources,
    store::{JobRow, NodeRow, Store},
};
use berth_scheduler::{
    Claim, Claimed, Claims, Plan, Ticket,
    fairness::{Charge, Headroom, Pledges},
};

use crate::devices::{are_free, left_by};

pub use parts::PLACEMENTS_PER_ENTRY_MAX;
use parts::parts;
pub use refused::Refused;

/// A plan after the check.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What to write, in order; the last one holds the outcome when nothing was refused.
    pub parts: Vec<(Command, usize)>,
    /// What was refused; what it asked for is to be planned again.
    pub refused: Refused,
    /// How many placements passed.
    pub passed: usize,
    /// The claims of what passed.
    pub ticket: Option<Ticket>,
}

impl Verdict {
    /// Nothing of the plan is committed.
    fn nothing(refused: Refused) -> Self {
        Self { parts: Vec::new(), refused, passed: 0, ticket: None }
    }
}

/// What of a plan fits.
#[derive(Debug, Default)]
struct Passing {
    placements: Vec<Placement>,
    claims: Vec<Claim>,
    /// What they add to what their namespace holds.
    pledge: Usage,
    refused: Refused,
}

/// The namespace whose job is planned, and what its quotas leave it.
struct Tenant {
    headroom: Headroom,
    pledge: Usage,
}

impl Tenant {
    fn of(store: &Store, job: &JobKey, on_the_way: &Claims) -> Self {
        let pledges =
            if store.quotas().is_empty() { Pledges::new() } else { on_the_way.pledges(store.index()) };
        let headroom = Headroom::of(store, &job.namespace, &pledges);
        Self { headroom, pledge: Usage::default() }
    }

    /// What a placement adds to what the namespace holds; none when a quota does not allow it.
    fn admit(&self, store: &Store, job: &Job, placement: &Placement) -> Option<Charge> {
        if self.headroom.is_unlimited() {
            return Some(Charge::default());
        }
        let group = job.groups.get(usize::from(placement.group))?;
        let node = store.nodes().find(placement.node)?;
        let charge = self.headroom.charge_of(store, group, node, &placement.after);
        self.headroom.check(&charge.usage).is_ok().then_some(charge)
    }

    fn take(&mut self, charge: Charge) {
        self.pledge.add(&charge.usage);
        self.headroom.take(charge);
    }
}

/// Checks plans.
#[derive(Debug, Default)]
pub(crate) struct Applier {
    /// What has passed and the store does not show yet.
    on_the_way: Claims,
    by_index: HashMap<Index, Vec<Ticket>>,
    /// Allocations whose room was left to successors that the store does not show yet.
    left: HashMap<AllocId, Ticket>,
}

impl Applier {
    /// Decides what of a plan is committed.
    pub fn check(&mut self, store: &Store, mut plan: Plan, next: Vec<NextEval>) -> Verdict {
        if store.job(&plan.job).is_none_or(|row| row.current().version != plan.job_version) {
            let refused = Refused { count: plan.placements.len().max(1), nodes: Vec::new() };
            return Verdict::nothing(refused);
        }
        let Passing { placements: passing, claims, pledge, refused } = self.passing(store, &plan);
        if plan.all_at_once && refused.count > 0 {
            return Verdict::nothing(refused);
        }
        let passed = passing.len();
        let ticket = (!claims.is_empty()).then(|| self.on_the_way.add(claims));
        if let Some(ticket) = ticket {
            self.on_the_way.pledge(ticket, &plan.job.namespace, pledge);
            self.left.extend(passing.iter().flat_map(|placement| &placement.after).map(|id| (*id, ticket)));
        }
        // What nobody takes the room of need not be pushed out.
        let needed: HashSet<AllocId> =
            passing.iter().flat_map(|placement| &placement.after).copied().collect();
        plan.stops.retain(|stop| stop.reason != StopReason::Preempted || needed.contains(&stop.alloc));
        let outcome = (refused.count == 0).then(|| EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: plan.failures.clone(),
            next,
        });
        Verdict { parts: parts(plan, passing, outcome), refused, passed, ticket }
    }

    /// The claims stand in the entry of this index.
    pub fn proposed(&mut self, ticket: Ticket, index: Index) {
        self.on_the_way.proposed(ticket, index);
        self.by_index.entry(index).or_default().push(ticket);
    }

    /// The store shows everything up to this index.
    pub fn applied(&mut self, index: Index) {
        self.on_the_way.settle(index);
        let settled: Vec<Ticket> =
            self.by_index.extract_if(|at, _| *at <= index).flat_map(|(_, tickets)| tickets).collect();
        self.left.retain(|_, ticket| !settled.contains(ticket));
    }

    /// The entry is not in the log.
    pub fn not_written(&mut self, index: Index) {
        for ticket in self.by_index.remove(&index).unwrap_or_default() {
            self.on_the_way.remove(ticket);
            self.left.retain(|_, of| *of != ticket);
        }
    }

    /// The placements that fit, with what they claim.
    fn passing(&self, store: &Store, plan: &Plan) -> Passing {
        let mut passing = Passing::default();
        let Some(job) = store.job(&plan.job).map(JobRow::job) else { return passing };
        let mut taken: HashMap<NodeId, Claimed> = HashMap::new();
        let mut promised: HashMap<AllocId, Resources> = HashMap::new();
        let mut tenant = Tenant::of(store, &plan.job, &self.on_the_way);
        for placement in &plan.placements {
            let admitted = tenant.admit(store, job, placement).and_then(|charge| {
                Some((charge, self.fits(store, job, placement, &mut taken, &mut promised)?))
            });
            let Some((charge, claim)) = admitted else {
                passing.refused.add(placement.node);
                continue;
            };
            tenant.take(charge);
            passing.placements.push(placement.clone());
            passing.claims.push(claim);
        }
        passing.pledge = tenant.pledge;
        passing
    }

    fn fits(
        &self,
        store: &Store,
        job: &Job,
        placement: &Placement,
        taken: &mut HashMap<NodeId, Claimed>,
        promised: &mut HashMap<AllocId, Resources>,
    ) -> Option<Claim> {
        if placement.after.iter().any(|before| self.left.contains_key(before)) {
            return None;
        }
        let (slot, row) = store.node(placement.node).filter(|(_, row)| row.is_ready())?;
        let group = job.groups.get(usize::from(placement.group))?;
        let detail = store.nodes().detail(slot)?;
        let charge = charge_of(store, group.resources_on(&detail.node), placement, promised);
        let claimed = self.on_the_way.of_node(row.id, store.index());
        let in_plan = taken.entry(row.id).or_default();
        if charge.exceeds(room(row, claimed.resources.plus(in_plan.resources))).is_some() {
            return None;
        }
        let inherited = ports_of(store, &placement.after);
        let free = |port: &u16| {
            (detail.ports.binary_search(port).is_err() || inherited.contains(port))
                && !claimed.ports.contains(port)
                && !in_plan.ports.contains(port)
                && detail.node.reserved_ports.binary_search(port).is_err()
        };
        if !placement.ports.iter().all(free) {
            return None;
        }
        let devices = DevicesHeld::of(&placement.devices, &placement.cores);
        if !devices.is_empty() {
            let mut held = DevicesHeld::clone(&detail.devices);
            held.add(&claimed.devices);
            held.add(&in_plan.devices);
            held.remove(left_by(store, slot, &placement.after));
            if !are_free(&detail.node, placement, &held) {
                return None;
            }
        }
        in_plan.add(charge, &placement.ports, &devices);
        Some(Claim { node: row.id, resources: charge, ports: placement.ports.clone(), devices })
    }
}

fn room(row: &NodeRow, claimed: Resources) -> Resources {
    row.free().minus(claimed)
}

/// What a placement adds to its node: what it holds, less the room its predecessors there leave it.
fn charge_of(
    store: &Store,
    ask: Resources,
    placement: &Placement,
    promised: &mut HashMap<AllocId, Resources>,
) -> Resources {
    let mut left = ask;
    for id in &placement.after {
        let Some((slot, _)) = store.alloc(*id) else { continue };
        let given = promised.entry(*id).or_default();
        let part = store.room_to_promise(slot).minus(*given).min(left);
        *given = given.plus(part);
        left = left.minus(part);
    }
    left
}

fn ports_of(store: &Store, allocs: &[AllocId]) -> Vec<u16> {
    allocs
        .iter()
        .filter_map(|id| store.allocs().find(*id))
        .flat_map(|slot| store.ports_to_promise(slot))
        .collect()
}

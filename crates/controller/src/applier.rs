//! The one place where plans become decisions: each is checked against the latest state and what is on its way into it.

use std::collections::{HashMap, HashSet};

use berth_model::{
    AllocId, Index, JobKey, NodeId,
    alloc::Placement,
    command::{Command, EvalOutcome, NextEval, PlanRecord},
    eval::EvalStatus,
    job::Job,
    quota::Usage,
    resources::Resources,
    store::{JobRow, NodeRow, Store},
};
use berth_scheduler::{
    Claim, Claims, Plan, Ticket,
    fairness::{Headroom, Pledges},
};

/// Placements in one entry; an entry is at most 1 MiB, and a placement rarely needs more than 100 bytes.
pub const PLACEMENTS_PER_ENTRY_MAX: usize = 6000;
/// About what a placement needs in the log, ports and predecessors apart.
const PLACEMENT_BYTES: usize = 64;

/// A plan after the check.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What to write, in order; the last one holds the outcome when nothing was refused.
    pub parts: Vec<(Command, usize)>,
    /// How many placements were refused; what they asked for is to be planned again.
    pub refused: usize,
    /// How many placements passed.
    pub passed: usize,
    /// The claims of what passed.
    pub ticket: Option<Ticket>,
}

/// What of a plan fits.
#[derive(Debug, Default)]
struct Passing {
    placements: Vec<Placement>,
    claims: Vec<Claim>,
    /// What they add to what their namespace holds.
    pledge: Usage,
}

/// The namespace whose job is planned, and what its quotas leave it.
struct Tenant {
    headroom: Headroom,
    promised: HashMap<AllocId, Resources>,
    pledge: Usage,
}

impl Tenant {
    fn of(store: &Store, job: &JobKey, on_the_way: &Claims) -> Self {
        let pledges = if store.quotas().is_empty() { Pledges::new() } else { on_the_way.pledges(store.index()) };
        let headroom = Headroom::of(store, &job.namespace, &pledges);
        Self { headroom, promised: HashMap::new(), pledge: Usage::default() }
    }

    /// What a placement adds to what the namespace holds; none when a quota does not allow it.
    fn admit(&mut self, store: &Store, job: &Job, placement: &Placement) -> Option<Usage> {
        if self.headroom.is_unlimited() {
            return Some(Usage::default());
        }
        let group = job.groups.get(usize::from(placement.group))?;
        let charge = self.headroom.charge_of(store, group, placement, &mut self.promised);
        self.headroom.check(&charge).is_ok().then_some(charge)
    }

    fn take(&mut self, charge: &Usage) {
        self.headroom.take(charge);
        self.pledge.add(charge);
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
    pub fn check(&mut self, store: &Store, plan: Plan, next: Vec<NextEval>) -> Verdict {
        let stale = store.job(&plan.job).is_none_or(|row| row.current().version != plan.job_version);
        let total = plan.placements.len();
        let all_at_once = plan.all_at_once;
        let Passing { placements: passing, claims, pledge } =
            if stale { Passing::default() } else { self.passing(store, &plan) };
        let refused = total - passing.len();
        if stale || all_at_once && refused > 0 {
            return Verdict { parts: Vec::new(), refused: refused.max(1), passed: 0, ticket: None };
        }
        let passed = passing.len();
        let ticket = (!claims.is_empty()).then(|| self.on_the_way.add(claims));
        if let Some(ticket) = ticket {
            self.on_the_way.pledge(ticket, &plan.job.namespace, pledge);
        }
        let outcome = (refused == 0).then(|| EvalOutcome {
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
        let mut taken: HashMap<NodeId, (Resources, HashSet<u16>)> = HashMap::new();
        let mut promised: HashMap<AllocId, Resources> = HashMap::new();
        let mut tenant = Tenant::of(store, &plan.job, &self.on_the_way);
        for placement in &plan.placements {
            let Some(charge) = tenant.admit(store, job, placement) else { continue };
            if let Some(claim) = self.fits(store, job, placement, &mut taken, &mut promised) {
                tenant.take(&charge);
                passing.placements.push(placement.clone());
                passing.claims.push(claim);
            }
        }
        passing.pledge = tenant.pledge;
        passing
    }

    fn fits(
        &self,
        store: &Store,
        job: &Job,
        placement: &Placement,
        taken: &mut HashMap<NodeId, (Resources, HashSet<u16>)>,
        promised: &mut HashMap<AllocId, Resources>,
    ) -> Option<Claim> {
        let (slot, row) = store.node(placement.node).filter(|(_, row)| row.is_ready())?;
        let group = job.groups.get(usize::from(placement.group))?;
        let charge = charge_of(store, group.resources(), placement, promised);
        let (claimed, claimed_ports) = self.on_the_way.of_node(row.id, store.index());
        let (in_plan, ports_in_plan) = taken.entry(row.id).or_default();
        if charge.exceeds(room(row, claimed.plus(*in_plan))).is_some() {
            return None;
        }
        let detail = store.nodes().detail(slot)?;
        let inherited = ports_of(store, &placement.after);
        let free = |port: &u16| {
            (detail.ports.binary_search(port).is_err() || inherited.contains(port))
                && !claimed_ports.contains(port)
                && !ports_in_plan.contains(port)
                && detail.node.reserved_ports.binary_search(port).is_err()
        };
        if !placement.ports.iter().all(free) {
            return None;
        }
        *in_plan = in_plan.plus(charge);
        ports_in_plan.extend(&placement.ports);
        Some(Claim { node: row.id, resources: charge, ports: placement.ports.clone() })
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
    let extras = allocs.iter().filter_map(|id| store.allocs().extra(store.allocs().find(*id)?));
    extras.flat_map(|extra| extra.ports.iter().copied()).collect()
}

/// Cuts a plan into parts that fit an entry each. Ends come first, so that no part needs room that a later one frees.
fn parts(plan: Plan, passing: Vec<Placement>, outcome: Option<EvalOutcome>) -> Vec<(Command, usize)> {
    let record = |placements, stops, outcome| PlanRecord {
        eval: plan.eval,
        job: plan.job.clone(),
        job_version: plan.job_version,
        snapshot_index: plan.snapshot_index,
        placements,
        stops,
        outcome,
    };
    let mut records = Vec::new();
    for stops in plan.stops.chunks(PLACEMENTS_PER_ENTRY_MAX) {
        records.push(record(Vec::new(), stops.to_vec(), None));
    }
    for placements in passing.chunks(PLACEMENTS_PER_ENTRY_MAX) {
        match records.last_mut().filter(|r| {
            r.placements.is_empty() && r.stops.len() + placements.len() < PLACEMENTS_PER_ENTRY_MAX
        }) {
            Some(last) => last.placements = placements.to_vec(),
            None => records.push(record(placements.to_vec(), Vec::new(), None)),
        }
    }
    if outcome.is_some() {
        match records.last_mut() {
            Some(last) => last.outcome = outcome,
            None => records.push(record(Vec::new(), Vec::new(), outcome)),
        }
    }
    records.into_iter().map(sized).collect()
}

fn sized(record: PlanRecord) -> (Command, usize) {
    let failures = record.outcome.as_ref().map_or(0, |o| 512 * o.failures.len() + 128);
    let extra: usize = record
        .placements
        .iter()
        .map(|p| 3 * p.ports.len() + 17 * p.after.len() + 9 * p.reschedules.len() + 20)
        .sum();
    let bytes = 128 + failures + extra + PLACEMENT_BYTES * record.placements.len() + 24 * record.stops.len();
    (Command::CommitPlan(Box::new(record)), bytes)
}

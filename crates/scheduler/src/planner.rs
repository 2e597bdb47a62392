//! One planner: follows the state, and answers evaluations with plans.

mod gang;
mod learning;
mod quotas;

use std::collections::{BTreeMap, HashSet};

use berth_model::{
    AllocId, Index, Timestamp,
    alloc::{Placement, Stop},
    eval::{Eval, EvalStatus, GroupFailure, Trigger},
    ids::IdSeed,
    job::Group,
    quota::Usage,
    store::{JobRow, Store},
};

use crate::{
    claims::Claims,
    fairness::{Headroom, Pledges},
    place::{Columns, Evictable, GroupPlacer, Placed, Preemptor, There, WishesCache},
    plan::{Plan, PlannedNext},
    reconcile::{Changes, Missing, reconcile, staying},
};
use quotas::Quotas;

/// Plans one evaluation after the other. Keeps scored structures between them, which follow what changed.
#[derive(Debug, Default)]
pub struct Planner {
    columns: Columns,
    wishes: WishesCache,
    evictable: Evictable,
    pledges: Pledges,
    /// It has followed a state.
    follows: bool,
    /// Of the state last followed: one that was restored is another, not a newer one.
    restored_at: Index,
}

impl Planner {
    /// Catches up with a newer state. `claims` must be those that go with it.
    pub fn follow(&mut self, store: &Store, claims: &Claims) {
        if store.restored_at() != self.restored_at {
            *self = Self { restored_at: store.restored_at(), ..Self::default() };
        }
        self.columns.follow(store, claims);
        if !std::mem::replace(&mut self.follows, true) {
            self.recall(store);
        }
        self.pledges = if store.quotas().is_empty() { Pledges::default() } else { claims.pledges(store) };
    }

    /// Plans one evaluation on the state last followed. `seed` makes the new ids.
    pub fn plan(&mut self, store: &Store, eval: &Eval, now: Timestamp, seed: u64) -> Plan {
        let mut plan = Plan {
            eval: eval.id,
            job: eval.job.clone(),
            job_version: 0,
            snapshot_index: store.index(),
            all_at_once: false,
            holds: Vec::new(),
            charges: Vec::new(),
            pledge: Usage::default(),
            placements: Vec::new(),
            stops: Vec::new(),
            failures: Vec::new(),
            next: Vec::new(),
        };
        let Some(row) = store.job(&eval.job) else { return plan };
        plan.job_version = row.current().version;
        plan.all_at_once = row.job().all_at_once;
        let Changes { stops, missing, retry_at } = reconcile(store, row, now);
        plan.stops = stops;
        if eval.trigger == Trigger::JobRegister {
            self.learn(row, &missing);
        }
        self.place_missing(store, row, missing, seed, &mut plan);
        if plan.all_at_once {
            self.place_all_or_nothing(store, &mut plan);
        }
        plan.next = next_evals(&plan, retry_at);
        plan
    }

    fn place_missing(
        &mut self,
        store: &Store,
        row: &JobRow,
        missing: Vec<(u16, Missing)>,
        seed: u64,
        plan: &mut Plan,
    ) {
        let mut by_group: BTreeMap<u16, Vec<Missing>> = BTreeMap::new();
        for (group, missing) in missing {
            by_group.entry(group).or_default().push(missing);
        }
        let mut ids = IdSeed::new(seed);
        let mut ending = ending(store, row, &plan.stops);
        let mut there = staying(store, row, &plan.stops);
        let mut headroom = Headroom::of(store, &row.key.namespace, &self.pledges);
        let mut preemptor = Preemptor::of(store, row.job(), &mut self.evictable);
        for (position, missing) in by_group {
            let group = &row.job().groups[usize::from(position)];
            let mut placer = GroupPlacer::new(
                store,
                &mut self.columns,
                &mut self.wishes,
                (row.job(), position),
                &there,
                &mut ending,
                seed,
            );
            let mut failure: Option<GroupFailure> = None;
            for missing in missing {
                // Nodes only get fuller while a plan is made: what fitted nowhere will not fit for the next like it.
                if let Some(failure) = failure.as_mut().filter(|_| missing.ask.only.is_none()) {
                    failure.count += 1;
                    continue;
                }
                let quotas = Quotas::of(store, &headroom, group);
                preemptor.iter_mut().for_each(|preemptor| preemptor.set_short(headroom.short()));
                match quotas
                    .admit(&missing.ask, &placer)
                    .and_then(|ask| placer.place(&ask, preemptor.as_mut(), |placed| quotas.check(placed)))
                {
                    Ok((placed, charge)) => {
                        there.push(There { node: placed.node, group: Some(position) });
                        push(plan, store, AllocId(ids.mint()), (position, group), missing, placed);
                        plan.pledge.add(&charge.usage);
                        headroom.take(charge);
                    }
                    Err(funnel) => match &mut failure {
                        Some(failure) => {
                            failure.count += 1;
                            failure.funnel.add(funnel);
                        }
                        None => failure = Some(GroupFailure { group: group.name.clone(), count: 1, funnel }),
                    },
                }
            }
            plan.failures.extend(failure);
        }
        plan.stops.extend(preemptor.into_iter().flat_map(|preemptor| preemptor.stops));
    }
}

fn push(
    plan: &mut Plan,
    store: &Store,
    id: AllocId,
    (position, group): (u16, &Group),
    missing: Missing,
    placed: Placed,
) {
    let Some(node) = store.nodes().row(placed.node) else { return };
    plan.holds.push(Usage::of(placed.holds, group));
    plan.charges.push(placed.charge);
    plan.placements.push(Placement {
        id,
        node: node.id,
        group: position,
        name_index: missing.ask.name_index,
        ports: placed.ports,
        after: placed.after,
        previous: missing.previous,
        reschedules: missing.reschedules,
        devices: placed.granted.devices,
        cores: placed.granted.cores,
    });
}

/// The job's allocations that live and are to end, by node.
fn ending(store: &Store, row: &JobRow, stops: &[Stop]) -> crate::place::Ending {
    let stopped: HashSet<AllocId> = stops.iter().map(|stop| stop.alloc).collect();
    let mut ending = crate::place::Ending::new();
    for slot in store.jobs().allocs(row) {
        let Some(alloc) = store.allocs().row(slot).filter(|alloc| !alloc.is_terminal()) else { continue };
        if alloc.is_wanted() && !stopped.contains(&alloc.id) {
            continue;
        }
        let here: &mut Vec<_> = ending.entry(alloc.node).or_default();
        here.push((slot, alloc.id, store.room_to_promise(slot)));
    }
    ending
}

fn next_evals(plan: &Plan, retry_at: Option<Timestamp>) -> Vec<PlannedNext> {
    let retry = retry_at.map(|wait_until| PlannedNext {
        status: EvalStatus::Pending,
        trigger: Trigger::RetryFailedAlloc,
        wait_until,
    });
    let blocked = (!plan.failures.is_empty()).then_some(PlannedNext {
        status: EvalStatus::Blocked,
        trigger: Trigger::QueuedAllocs,
        wait_until: Timestamp::default(),
    });
    blocked.into_iter().chain(retry).collect()
}

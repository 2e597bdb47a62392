//! One planner: follows the state, and answers evaluations with plans.

mod gang;
mod learning;
mod plan_builder;
mod quotas;

use std::collections::HashSet;

use berth_model::{
    AllocId, DeploymentId, Index, Timestamp,
    alloc::Stop,
    deployment::{DeploymentGroup, NewDeployment},
    eval::{Eval, EvalStatus, Trigger},
    ids::IdSeed,
    observed::Observed,
    quota::Usage,
    resources::Resources,
    store::{JobRow, Store},
};

use crate::{
    budget::{Budget, Cancelled, Meter},
    claims::{ClaimScope, Claims},
    failures::bounded,
    fairness::{Headroom, Pledges},
    place::{Columns, Evictable, Preemptor, RequirementsCache},
    plan::{FollowUpEval, Plan},
    reconcile::{JobChanges, MissingAllocs, reconcile, staying},
};
use plan_builder::PlanBuilder;

/// Plans one evaluation after the other. Keeps scored structures between them, which follow what changed.
#[derive(Debug, Default)]
pub struct Planner {
    columns: Columns,
    requirements: RequirementsCache,
    evictable: Evictable,
    pledges: Pledges,
    /// What agents saw, beside the state last followed; not kept for longer than a plan needs it.
    observed: Observed,
    /// Nothing on a disconnected node counts as lost before.
    awaited_until: Timestamp,
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
        self.pledges = if store.quotas().is_empty() {
            Pledges::default()
        } else {
            claims.pledges(store, ClaimScope::All)
        };
    }

    /// What agents saw last, for the next plan: it decides only who stays of two that run where one should.
    pub fn observe(&mut self, observed: &Observed) {
        self.observed = observed.clone();
    }

    /// Until when nodes have the time to come back, by whoever leads: nothing on one that is disconnected counts as lost before, in
    /// the plans that follow, however long ago its group would have given it up.
    pub fn await_nodes(&mut self, until: Timestamp) {
        self.awaited_until = until;
    }

    /// Plans one evaluation on the state last followed, within the usual budget. `seed` makes the new ids.
    pub fn plan(&mut self, store: &Store, eval: &Eval, now: Timestamp, seed: u64) -> Plan {
        match self.plan_within(store, eval, now, seed, &Budget { cancelled: None, ..Budget::default() }) {
            Ok(plan) => plan,
            Err(Cancelled) => unreachable!("there is no flag to cancel it with"),
        }
    }

    /// The same within a budget.
    ///
    /// # Errors
    /// When the budget says that nobody waits for the plan any more. The planner is of no use then: it holds what half a
    /// plan has taken.
    pub fn plan_within(
        &mut self,
        store: &Store,
        eval: &Eval,
        now: Timestamp,
        seed: u64,
        budget: &Budget<'_>,
    ) -> Result<Plan, Cancelled> {
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
            updates: Vec::new(),
            failures: Vec::new(),
            next: Vec::new(),
            deployment: None,
            more: false,
        };
        // Also where there is nothing to plan: a planner without work would hold on to what was seen of jobs that are gone.
        let observed = std::mem::take(&mut self.observed);
        let Some(row) = store.job(&eval.job) else { return Ok(plan) };
        let mut meter = Meter::new(*budget);
        plan.job_version = row.current().version;
        plan.all_at_once = row.job().all_at_once;
        let changes = reconcile(store, &observed, row, (now, self.awaited_until), &mut meter)?;
        drop(observed);
        let JobChanges { stops, updates, missing, retry_at, lost_at, stagger_until, more, deployment } =
            changes;
        (plan.stops, plan.updates, plan.more) = (stops, updates, more);
        plan.deployment = (!deployment.is_empty()).then(|| Box::new(new_deployment(deployment, seed)));
        if eval.trigger == Trigger::JobRegister {
            self.learn(store, row, &missing);
        }
        match self.too_many_at_once(store, row, &missing, &meter) {
            Some(failures) if plan.all_at_once => plan.failures = failures,
            _ => self.place_missing(store, row, &missing, seed, &mut meter, &mut plan)?,
        }
        if plan.all_at_once {
            self.place_all_or_nothing(store, &mut plan);
        }
        // Whatever is planned again must find something done.
        plan.more &= !plan.is_noop();
        plan.failures = bounded(std::mem::take(&mut plan.failures));
        plan.next = if plan.more { Vec::new() } else { next_evals(&plan, retry_at, lost_at, stagger_until) };
        Ok(plan)
    }

    fn place_missing(
        &mut self,
        store: &Store,
        row: &JobRow,
        missing: &[MissingAllocs],
        seed: u64,
        meter: &mut Meter<'_>,
        plan: &mut Plan,
    ) -> Result<(), Cancelled> {
        let mut builder = PlanBuilder {
            store,
            row,
            seed,
            ids: IdSeed::new(seed),
            ending: ending(store, row, &plan.stops),
            peers: staying(store, row, row.job(), &plan.stops),
            headroom: Headroom::of(store, &row.key.namespace, &self.pledges),
            fresh_left: fresh_left(missing, meter),
        };
        let mut preemptor = Preemptor::of(store, row.job(), &mut self.evictable);
        for missing in missing {
            let (columns, requirements) = (&mut self.columns, &mut self.requirements);
            builder.place_group(columns, requirements, preemptor.as_mut(), missing, meter, plan)?;
        }
        plan.stops.extend(preemptor.into_iter().flat_map(|preemptor| preemptor.stops));
        Ok(())
    }
}

/// Placements that replace nobody: what the budget leaves beside those that do, whose predecessors are being stopped.
fn fresh_left(missing: &[MissingAllocs], meter: &Meter<'_>) -> usize {
    let replacing: usize = missing.iter().map(|missing| missing.successors().count()).sum();
    meter.budget().placements.saturating_sub(replacing)
}

/// The job's allocations that live, are to end and have something to leave, by node.
fn ending(store: &Store, row: &JobRow, stops: &[Stop]) -> crate::place::EndingAllocs {
    let stopped: HashSet<AllocId> = stops.iter().map(|stop| stop.alloc).collect();
    let mut ending = crate::place::EndingAllocs::new();
    for slot in store.jobs().allocs(row) {
        let Some(alloc) = store.allocs().row(slot).filter(|alloc| !alloc.is_terminal()) else { continue };
        if alloc.is_desired() && !stopped.contains(&alloc.id) {
            continue;
        }
        let room = store.resources_to_promise(slot);
        let has_more =
            || store.allocs().extra(slot).is_some_and(|extra| !extra.ports.is_empty() || extra.has_devices());
        if room != Resources::ZERO || has_more() {
            let here: &mut Vec<_> = ending.entry(alloc.node).or_default();
            here.push((slot, alloc.id, room));
        }
    }
    ending
}

fn new_deployment(groups: Vec<DeploymentGroup>, seed: u64) -> NewDeployment {
    // Other ids than those of the allocations.
    let id = DeploymentId(IdSeed::new(!seed).mint());
    NewDeployment { id, groups }
}

fn next_evals(
    plan: &Plan,
    retry_at: Option<Timestamp>,
    lost_at: Option<Timestamp>,
    stagger_until: Option<Timestamp>,
) -> Vec<FollowUpEval> {
    let later = |trigger| move |wait_until| FollowUpEval { status: EvalStatus::Pending, trigger, wait_until };
    let retry = retry_at.map(later(Trigger::RetryFailedAlloc));
    let lost = lost_at.map(later(Trigger::DisconnectTimeout));
    let stagger = stagger_until.map(later(Trigger::DeploymentWatcher));
    let blocked = (!plan.failures.is_empty()).then_some(FollowUpEval {
        status: EvalStatus::Blocked,
        trigger: Trigger::QueuedAllocs,
        wait_until: Timestamp::default(),
    });
    blocked.into_iter().chain(retry).chain(lost).chain(stagger).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_model::{
        EvalId, JobKey,
        alloc::ClientStatus,
        job::JobType,
        observed::ObservedAlloc,
        store::{AllocSlot, JobSlot},
    };

    use super::*;

    #[test]
    fn a_planner_holds_on_to_nothing_that_was_seen_even_if_the_job_is_gone() {
        let seen = Arc::new(ObservedAlloc {
            id: AllocId(1),
            status: ClientStatus::Running,
            description: String::new(),
            tasks: Vec::new(),
            modified_at: Timestamp(1),
            healthy: None,
            health_message: String::new(),
            revision: 0,
            hash: 0,
        });
        let mut observed = Observed::default();
        observed.record(AllocSlot(0), JobSlot(0), 0, seen.clone(), Index(1));
        let mut planner = Planner::default();
        planner.observe(&observed);
        drop(observed);
        assert_eq!(Arc::strong_count(&seen), 2, "it is there for the plan");
        let gone = JobKey::new("default", "gone");
        let eval = Eval::pending(EvalId(1), gone, JobType::Service, 50, Trigger::JobDeregister);
        assert!(planner.plan(&Store::default(), &eval, Timestamp(1), 1).is_noop());
        assert_eq!(Arc::strong_count(&seen), 1);
    }
}

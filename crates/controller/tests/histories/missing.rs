//! What a job lacks or has too much of although no evaluation waits: beside its canaries, and by what a plan would change.

use std::collections::BTreeSet;

use berth_model::{
    AllocId, EvalId,
    alloc::{ClientStatus, StopReason},
    deployment::{Deployment, DeploymentStatus},
    eval::{Eval, Trigger},
    event::{AppliedEntry, StateChange},
    job::{Group, JobType},
    store::{AllocRow, AllocSlot, JobRow, Store},
};
use berth_scheduler::{Claims, Planner, reconcile::failed_for_good};

type Alloc<'a> = (AllocSlot, &'a AllocRow);

/// Allocations that were ended because there were too many. The state says of one that was lost before it had ended only that: the
/// next plan takes it for lost, which does no harm.
#[derive(Default)]
pub struct Surplus(BTreeSet<AllocId>);

impl Surplus {
    pub fn on_entry(&mut self, store: &Store, applied: &AppliedEntry) {
        let stopped = applied.events.iter().filter_map(|change| match change {
            StateChange::AllocStopped(slot) => Some(*slot),
            _ => None,
        });
        let reason = |slot| store.allocs().extra(slot).and_then(|extra| extra.stop_reason);
        let surplus = stopped.filter(|slot| reason(*slot) == Some(StopReason::NotNeeded));
        self.0.extend(surplus.filter_map(|slot| store.allocs().row(slot)).map(|row| row.id));
    }

    /// What is wrong with a service whose newest version has still to be promoted, or has failed before that: nothing of an older one
    /// is missing that had to go, there are as many canaries as are to show what the version is worth, and nothing else is too much.
    pub fn lacks_beside_canaries(&self, store: &Store, row: &JobRow) -> Option<String> {
        let job = row.job();
        if job.job_type != JobType::Service || job.stop || waits(store, row) {
            return None;
        }
        let deployment = store.deployments().of_version(&row.key, row.current().version)?;
        let failed = failed_for_good(store, row, store.at());
        let lacks = |group| self.lacks_in_group(store, (row, group), deployment, &failed);
        job.groups.iter().find_map(lacks)
    }

    fn lacks_in_group(
        &self,
        store: &Store,
        (row, group): (&JobRow, &Group),
        deployment: &Deployment,
        failed: &[AllocSlot],
    ) -> Option<String> {
        let of = deployment.group(&group.name)?;
        let allocs = store.jobs().allocs(row).filter_map(|slot| Some((slot, store.allocs().row(slot)?)));
        let own = allocs.filter(|(_, alloc)| row.group_of(alloc).is_some_and(|own| own.name == group.name));
        let is_canary = |alloc: &Alloc<'_>| of.is_canarying() && of.canaries.contains(&alloc.1.id);
        let (canaries, others): (Vec<Alloc<'_>>, Vec<Alloc<'_>>) = own.partition(is_canary);
        let live: Vec<&Alloc<'_>> = others.iter().filter(|(_, alloc)| alloc.is_desired()).collect();
        let running = live.iter().filter(|(slot, _)| !is_stood_in_for(store, *slot)).count();
        // What was stood in for out of sight stays until its node is back, whatever became of the other.
        let out_of_sight = |slot, alloc: &AllocRow| {
            let is_silent = store.nodes().row(alloc.node).is_none_or(|node| node.status.is_silent());
            is_silent && store.allocs().extra(slot).is_some_and(|extra| extra.next.is_some())
        };
        let in_sight = live.iter().filter(|(slot, alloc)| !out_of_sight(*slot, alloc)).count();
        // What has failed may have its place for good.
        let may_be_final =
            |alloc: &AllocRow| alloc.client == ClientStatus::Failed && !group.reschedule.unlimited;
        let awaiting = || others.iter().filter(|(_, alloc)| store.awaits_replacement(alloc));
        let held = awaiting().filter(|(_, alloc)| may_be_final(alloc)).count();
        let missing = awaiting().find(|(slot, alloc)| {
            !self.0.contains(&alloc.id)
                && !may_be_final(alloc)
                && !failed.contains(slot)
                && live.iter().all(|(_, other)| other.name_index != alloc.name_index)
        });
        let of_job = || format!("{} of {}", group.name, row.key);
        let count = group.count as usize;
        if let Some((_, alloc)) = missing.filter(|_| running + held < count) {
            return Some(format!("{}: nobody has the place of {}", of_job(), alloc.id));
        }
        if running.min(in_sight) > count {
            return Some(format!("{}: {running} of {count} run", of_job()));
        }
        let shows = |alloc: &&Alloc<'_>| alloc.1.is_desired() || failed.contains(&alloc.0);
        let shown = canaries.iter().filter(shows).count();
        let wanted = if of.is_canarying() { of.desired_canaries as usize } else { 0 };
        let lacks = deployment.status == DeploymentStatus::Running && shown < wanted;
        lacks.then(|| format!("{}: {shown} of {wanted} canaries", of_job()))
    }

    /// What a plan would change of a job for which no evaluation waits.
    pub fn unplanned(&self, store: &Store, row: &JobRow) -> Option<String> {
        let mut allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
        let is_lost = |alloc: &AllocRow| alloc.client == ClientStatus::Lost && self.0.contains(&alloc.id);
        if row.job().only_launches() || waits(store, row) || allocs.any(is_lost) {
            return None;
        }
        let job = row.job();
        let eval =
            Eval::pending(EvalId(1), row.key.clone(), job.job_type, job.priority, Trigger::JobRegister);
        let mut planner = Planner::default();
        planner.follow(store, &Claims::default());
        let plan = planner.plan(store, &eval, store.at(), 1);
        let changes = !plan.placements.is_empty() || !plan.stops.is_empty() || !plan.updates.is_empty();
        changes.then(|| format!("{}: nobody asks for this: {plan:#?}", row.key))
    }
}

/// Whether an evaluation of the job is not over.
fn waits(store: &Store, row: &JobRow) -> bool {
    let mut evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
    evals.any(|eval| !eval.status.is_terminal())
}

/// Whether another stands in for an allocation, itself or after others that have ended.
fn is_stood_in_for(store: &Store, slot: AllocSlot) -> bool {
    let next = |slot: &AllocSlot| store.allocs().find(store.allocs().extra(*slot)?.next?);
    let is_desired = |slot| store.allocs().row(slot).is_some_and(AllocRow::is_desired);
    std::iter::successors(next(&slot), next).any(is_desired)
}

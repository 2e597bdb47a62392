//! Whether what a plan preempts may be preempted, and somebody waits for it.

use std::collections::BTreeSet;

use berth_model::{
    alloc::{Stop, StopReason},
    job::Job,
};

use super::{CheckedPlan, PlanFaults, quotas::QuotaAmounts};

/// How much lower the priority of what is preempted must be, unless it lives on borrowed capacity.
const PRIORITY_GAP: u8 = 10;

pub(super) fn check(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let stops = checked.plan.stops.iter();
    let preempted: Vec<&Stop> = stops.filter(|stop| stop.reason == StopReason::Preempted).collect();
    let mut reclaims = false;
    for stop in &preempted {
        let victim = checked.store.alloc(stop.alloc).and_then(|(_, row)| checked.store.job_of(row));
        if let Some((victim, _)) = victim {
            reclaims |= victim.priority.saturating_add(PRIORITY_GAP) > checked.job.priority;
            check_one(checked, stop, victim, faults);
        }
        if !checked.plan.placements.iter().any(|placement| placement.after.contains(&stop.alloc)) {
            faults.add(format!("allocation {} is preempted without a successor", stop.alloc));
        }
    }
    if reclaims {
        lenders(checked, &preempted, faults);
    }
}

fn check_one(checked: &CheckedPlan<'_>, stop: &Stop, victim: &Job, faults: &mut PlanFaults) {
    let (job, preemption) = (checked.job, checked.store.scheduler_config().preemption);
    if !preemption.is_on_for(job.job_type) {
        faults.add(format!("allocation {} is preempted by a job that may not", stop.alloc));
    }
    let is_low = victim.priority.saturating_add(PRIORITY_GAP) <= job.priority;
    let is_borrowed = victim.priority <= job.priority && is_owed(checked, victim);
    if !is_low && !is_borrowed {
        faults.add(format!("allocation {} is preempted, and its priority is too high", stop.alloc));
    }
    let batch_on_batch = victim.job_type.runs_to_completion() && job.job_type.runs_to_completion();
    if batch_on_batch && !preemption.batch_on_batch {
        faults.add(format!("batch allocation {} is preempted by batch work", stop.alloc));
    }
}

/// Whether a quota guarantees the job's namespace more than is held of it, and not the victim's.
fn is_owed(checked: &CheckedPlan<'_>, victim: &Job) -> bool {
    let namespaces = checked.store.namespaces();
    let theirs = namespaces.quotas(&victim.key.namespace);
    let own = namespaces.quotas(&checked.plan.job.namespace).into_iter();
    own.filter(|quota| !theirs.contains(quota)).any(|name| {
        let held = QuotaAmounts::held(checked.store, name, |_| true);
        let guarantee = checked.store.quotas().get(name).map(|row| &row.quota.guarantee);
        guarantee.is_some_and(|guarantee| held.against(guarantee).any(|(_, held, floor)| held < floor))
    })
}

/// Those from whom capacity was taken back keep what is guaranteed to them.
fn lenders(checked: &CheckedPlan<'_>, preempted: &[&Stop], faults: &mut PlanFaults) {
    let (store, namespaces) = (checked.store, checked.store.namespaces());
    let own = namespaces.quotas(&checked.plan.job.namespace);
    let victims = preempted.iter().filter_map(|stop| store.alloc(stop.alloc));
    let jobs = victims.filter_map(|(_, row)| store.jobs().row(row.job));
    let lenders: BTreeSet<&str> = jobs.flat_map(|job| namespaces.quotas(&job.key.namespace)).collect();
    for name in lenders.difference(&own) {
        let Some(row) = store.quotas().get(name) else { continue };
        let stays = |id| preempted.iter().all(|stop| stop.alloc != id);
        let (before, after) = (
            QuotaAmounts::held(store, name, |alloc| alloc.is_desired()),
            QuotaAmounts::held(store, name, |alloc| alloc.is_desired() && stays(alloc.id)),
        );
        let after = after.against(&row.quota.guarantee);
        for ((what, after, floor), (_, before, _)) in after.zip(before.against(&row.quota.guarantee)) {
            if after < floor && before >= floor {
                faults.add(format!("quota {name} guarantees {floor} of {what}, and is left {after}"));
            }
        }
    }
}

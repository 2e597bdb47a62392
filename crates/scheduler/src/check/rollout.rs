//! Canaries: no more of them than the job says, and of a job that runs on each node each in place of another. And how
//! fast one version replaces another.

use std::collections::BTreeMap;

use berth_model::{
    alloc::{Placement, Stop, StopReason},
    deployment::DeploymentStatus,
    job::Group,
};

use super::{CheckedPlan, PlanFaults};

pub(super) fn check(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    canaries(checked, faults);
    older(checked, faults);
    pace(checked, faults);
}

fn canaries(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let mut by_group: BTreeMap<u16, u32> = BTreeMap::new();
    for placement in checked.plan.placements.iter().filter(|placement| placement.canary) {
        *by_group.entry(placement.group).or_default() += 1;
        if checked.job.job_type.is_per_node() && !replaces_on_its_node(checked, placement) {
            faults.add(format!("canary {} stands beside another allocation of its node", placement.id));
        }
    }
    for (position, count) in by_group {
        let update = checked.group(position).and_then(|group| group.update.as_deref());
        let most = update.map_or(0, |update| match checked.job.job_type.is_per_node() {
            true if update.canary > 0 => u32::try_from(checked.store.nodes().len()).unwrap_or(u32::MAX),
            _ => update.canary,
        });
        if count > most {
            faults.add(format!("{count} canaries of group {position}, which may have {most}"));
        }
    }
}

/// An older version is placed only as long as the newest has not been promoted, and for one of that older version.
fn older(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    for placement in &checked.plan.placements {
        let Some((number, (_, group))) = placement.job_version.zip(checked.spec(placement)) else { continue };
        let newest = checked.job.group(&group.name).map(|(_, group)| group);
        if placement.canary || !newest.is_some_and(|group| awaits_promotion(checked, group)) {
            faults.add(format!("allocation {} is of version {number}, which is over", placement.id));
        }
        let replaced = placement.previous.and_then(|id| checked.store.alloc(id));
        if replaced.is_none_or(|(_, row)| row.job_version != number) {
            faults
                .add(format!("allocation {} is of version {number}, and replaces none of it", placement.id));
        }
    }
}

/// No more of a group are replaced at once than its `update` block says, and none while its deployment is paused, has failed,
/// or waits for its promotion.
fn pace(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let updated = |placement: &&Placement| {
        let of = |stop: &&Stop| Some(stop.alloc) == placement.previous;
        let stop = checked.plan.stops.iter().find(of);
        !placement.canary && stop.is_some_and(|stop| stop.reason == StopReason::JobUpdated)
    };
    for (position, group) in (0..).zip(&checked.job.groups) {
        let Some(update) = group.deployed_by(checked.job.job_type) else { continue };
        let most = if stands_still(checked, group) { 0 } else { update.max_parallel as usize };
        let of_group = checked.plan.placements.iter().filter(|p| checked.position(p) == Some(position));
        let replaced = of_group.filter(updated).count();
        if replaced > most {
            faults.add(format!("{replaced} of group {position} are replaced at once; {most} may be"));
        }
    }
}

fn stands_still(checked: &CheckedPlan<'_>, group: &Group) -> bool {
    let current = checked.store.deployments().of_version(&checked.plan.job, checked.plan.job_version);
    let is_held = |status| matches!(status, DeploymentStatus::Paused | DeploymentStatus::Failed);
    current.is_some_and(|deployment| is_held(deployment.status)) || awaits_promotion(checked, group)
}

/// Whether the deployment that is there, or that the plan begins, has canaries of a group that are not promoted.
fn awaits_promotion(checked: &CheckedPlan<'_>, group: &Group) -> bool {
    let planned = checked.plan.deployment.iter().flat_map(|deployment| &deployment.groups);
    let current = checked.store.deployments().of_version(&checked.plan.job, checked.plan.job_version);
    // One that ended well without a promotion found nothing left to replace: nobody is asked for one any more.
    let current = current.filter(|deployment| deployment.status != DeploymentStatus::Successful);
    let mut groups = planned.chain(current.iter().flat_map(|deployment| &deployment.groups));
    groups.any(|of| of.name == group.name && of.is_canarying())
}

fn replaces_on_its_node(checked: &CheckedPlan<'_>, canary: &Placement) -> bool {
    let Some(previous) = canary.previous.filter(|previous| checked.is_stopped(*previous)) else {
        return false;
    };
    let row = checked.store.alloc(previous).map(|(_, row)| row.node);
    row.is_some() && row == checked.node(canary.node)
}

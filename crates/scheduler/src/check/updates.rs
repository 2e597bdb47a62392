//! Allocations that go on under a newer version: their tasks run as they did, on nodes that may still have them, whose agents
//! can be sent what is new.

use std::collections::HashSet;

use berth_model::{
    AllocId,
    job::{Group, Task},
};

use super::{CheckedPlan, PlanFaults};
use crate::filters::{FEATURES_ATTRIBUTE, Filters};

pub(super) fn check(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let mut seen = HashSet::new();
    for id in &checked.plan.updates {
        if !seen.insert(*id) {
            faults.add(format!("allocation {id} is updated twice"));
        }
        if let Err(why) = one(checked, *id) {
            faults.add(format!("allocation {id} is updated where it is, {why}"));
        }
    }
}

fn one(checked: &CheckedPlan<'_>, id: AllocId) -> Result<(), &'static str> {
    let desired = checked.store.alloc(id).filter(|(_, row)| row.is_desired());
    let (_, row) = desired.ok_or("and is not meant to go on")?;
    if checked.store.jobs().find(&checked.plan.job) != Some(row.job) {
        return Err("and is another job's");
    }
    if row.job_version >= checked.plan.job_version {
        return Err("and is of that version");
    }
    if checked.is_stopped(id) || checked.plan.placements.iter().any(|placed| placed.previous == Some(id)) {
        return Err("and another takes its place");
    }
    let (_, old) = checked.store.job_of(row).ok_or("and is of no group")?;
    let (_, new) = checked.job.group(&old.name).ok_or("and has no group any more")?;
    if !run_alike(old, new) {
        return Err("and its tasks would have to restart");
    }
    let node =
        checked.store.nodes().detail(row.node).map(|detail| &detail.node).ok_or("and is on no node")?;
    let known = node.attributes.get(FEATURES_ATTRIBUTE).map_or("", String::as_str);
    if !known.split(',').any(|known| known == "in_place_updates") {
        return Err("and its agent does not know updates in place");
    }
    Filters::of(checked.job, new).check(node).map_err(|_| "and its node may not run it any more")
}

/// Whether whatever a task is started with is the same.
fn run_alike(old: &Group, new: &Group) -> bool {
    let of_group = |group: &Group| {
        let volumes = group.volumes.clone();
        (group.name.clone(), group.disk, group.networks.clone(), group.meta.clone(), volumes)
    };
    let is_like = |(old, new): (&Task, &Task)| {
        (&old.name, &old.driver, &old.config, &old.user, &old.env, &old.resources)
            == (&new.name, &new.driver, &new.config, &new.user, &new.env, &new.resources)
            && (&old.meta, &old.lifecycle, &old.artifacts, &old.templates, &old.volume_mounts)
                == (&new.meta, &new.lifecycle, &new.artifacts, &new.templates, &new.volume_mounts)
            && (&old.dispatch_payload, &old.identities, &old.secrets, old.logs, old.leader)
                == (&new.dispatch_payload, &new.identities, &new.secrets, new.logs, new.leader)
    };
    of_group(old) == of_group(new)
        && old.tasks.len() == new.tasks.len()
        && old.tasks.iter().zip(&new.tasks).all(is_like)
}

//! The scaling status of a job's groups.

use std::collections::BTreeMap;

use berth_api::http::{GroupScaleStatus, JobScaleStatus, ScalingEvent, ScalingPolicy, ScalingPolicyStub};
use berth_model::{EvalId, JobKey, job::Scaling, scaling, store::JobRow};
use sha2::{Digest, Sha256};

use super::summary;
use crate::access::CallerView;
use crate::convert::value;

/// How a job's groups are scaled.
pub fn scale_status(view: &CallerView, row: &JobRow) -> JobScaleStatus {
    let counts = summary(view, row).summary;
    let health = health(view, row);
    let groups = row.job().groups.iter().map(|group| {
        let counts = counts.get(&group.name).copied().unwrap_or_default();
        let (healthy, unhealthy) = health.get(&*group.name).copied().unwrap_or_default();
        let status = GroupScaleStatus {
            desired: group.count,
            placed: counts.running + counts.starting,
            running: counts.running,
            healthy,
            unhealthy,
            events: row.scaling_events(&group.name).map(scaling_event).collect(),
        };
        (group.name.clone(), status)
    });
    JobScaleStatus {
        job_id: row.key.id.to_string(),
        namespace: row.key.namespace.to_string(),
        job_create_index: row.create_index.0,
        job_modify_index: row.current().index.0,
        job_stopped: row.job().stop,
        task_groups: groups.collect(),
    }
}

/// How many allocations that run, or are to, a deployment found healthy and unhealthy, by group.
fn health<'v>(view: &'v CallerView, row: &'v JobRow) -> BTreeMap<&'v str, (u32, u32)> {
    let mut of = BTreeMap::<&str, (u32, u32)>::new();
    for parts in view.allocs_of(row).filter_map(|slot| view.alloc_in(slot)) {
        if parts.row.is_terminal() || !parts.row.is_desired() {
            continue;
        }
        let (healthy, unhealthy) = of.entry(&*parts.group.name).or_default();
        match parts.detail.healthy {
            Some(true) => *healthy += 1,
            Some(false) => *unhealthy += 1,
            None => {}
        }
    }
    of
}

/// A change of a group's count, or a message about it.
pub fn scaling_event(event: &scaling::ScalingEvent) -> ScalingEvent {
    ScalingEvent {
        time: event.at.0,
        count: event.count,
        previous_count: event.previous_count,
        error: event.error,
        message: event.message.clone(),
        meta: event.meta.iter().map(|(name, value)| (name.clone(), value::to_json(value))).collect(),
        eval_id: event.eval.map(|eval| eval.to_string()),
        create_index: event.index.0,
    }
}

/// Which groups of a job have scaling policies.
pub fn scaled_groups(row: &JobRow) -> impl Iterator<Item = usize> + '_ {
    let groups = row.job().groups.iter().enumerate();
    groups.filter(|(_, group)| group.scaling.is_some()).map(|(at, _)| at)
}

/// The scaling policy of one of a job's groups.
pub fn scaling_policy(row: &JobRow, group: usize) -> Option<ScalingPolicy> {
    let group = row.job().groups.get(group)?;
    Some(policy(row, &group.name, group.scaling.as_deref()?))
}

/// The policy of a group of that name.
pub(super) fn policy(row: &JobRow, group: &str, scaling: &Scaling) -> ScalingPolicy {
    let JobKey { namespace, id } = &row.key;
    let target = [("Namespace", &**namespace), ("Job", &**id), ("Group", group)];
    ScalingPolicy {
        id: policy_id(namespace, id, group),
        namespace: namespace.to_string(),
        kind: "horizontal".to_owned(),
        target: target.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        min: scaling.min,
        max: scaling.max,
        policy: scaling.policy.iter().map(|(name, value)| (name.clone(), value::to_json(value))).collect(),
        enabled: scaling.enabled,
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
    }
}

/// Policies stand in their jobs and have no ids of their own: one that is always the same is made from their place.
fn policy_id(namespace: &str, job: &str, group: &str) -> String {
    let digest = Sha256::digest(format!("{namespace}\0{job}\0{group}"));
    EvalId::from_slice(&digest[..16]).unwrap_or_default().to_string()
}

/// A scaling policy in a list.
pub fn scaling_policy_stub(policy: ScalingPolicy) -> ScalingPolicyStub {
    let ScalingPolicy { id, enabled, kind, target, create_index, modify_index, .. } = policy;
    ScalingPolicyStub { id, enabled, kind, target, create_index, modify_index }
}

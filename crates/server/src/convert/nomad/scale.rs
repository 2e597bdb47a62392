//! How a job's groups are scaled.

use berth_api::http::{GroupScaleStatus, JobScaleStatus, ScalingEvent};
use berth_model::{scaling, store::JobRow};

use super::{summary, value};
use crate::state::View;

/// How a job's groups are scaled.
pub fn scale_status(view: &View, row: &JobRow) -> JobScaleStatus {
    let counts = summary(view, row).summary;
    let groups = row.job().groups.iter().map(|group| {
        let counts = counts.get(&group.name).copied().unwrap_or_default();
        let events = row.scalings.iter().flat_map(|events| events.iter());
        let status = GroupScaleStatus {
            desired: group.count,
            placed: counts.running + counts.starting,
            running: counts.running,
            healthy: 0,
            unhealthy: 0,
            events: events.filter(|event| event.group == group.name).map(scaling_event).collect(),
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

fn scaling_event(event: &scaling::ScalingEvent) -> ScalingEvent {
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

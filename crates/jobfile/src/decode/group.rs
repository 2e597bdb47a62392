//! Groups.

use std::collections::HashSet;

use berth_model::job::{
    EphemeralDisk, GROUP_COUNT_MAX, Group, JobType, ReschedulePolicy, RestartPolicy, Task,
};

use super::{constraint, disk, name, network, reschedule, restart, spread, task};
use crate::schema::{Body, CONSTRAINT, EPHEMERAL_DISK, NETWORK, RESCHEDULE, RESTART, SPREAD, TASK};

pub(super) fn group(body: &Body<'_>, job_type: JobType) -> Group {
    let restart = restart::policy(body.block("restart", &RESTART), RestartPolicy::default_for(job_type));
    Group {
        name: name::label(body),
        count: count(body, job_type),
        constraints: constraint::constraints(&body.blocks("constraint", &CONSTRAINT)),
        spreads: spread::spreads(&body.blocks("spread", &SPREAD), job_type),
        restart,
        reschedule: reschedule::policy(body.block("reschedule", &RESCHEDULE), job_type),
        disk: disk::disk(body.block("ephemeral_disk", &EPHEMERAL_DISK)),
        networks: network::networks(&body.blocks("network", &NETWORK)),
        meta: body.text_map("meta"),
        shutdown_delay: body.duration("shutdown_delay").unwrap_or_default(),
        tasks: tasks(body, restart),
    }
}

/// The group that a task makes which stands directly in a job.
pub(super) fn of_task(body: &Body<'_>, job_type: JobType) -> Group {
    let restart = RestartPolicy::default_for(job_type);
    let task = task::task(body, restart);
    Group {
        name: task.name.clone(),
        count: 1,
        constraints: Vec::new(),
        spreads: Vec::new(),
        restart,
        reschedule: ReschedulePolicy::default_for(job_type),
        disk: EphemeralDisk::default(),
        networks: Vec::new(),
        meta: Default::default(),
        shutdown_delay: Default::default(),
        tasks: vec![task],
    }
}

fn count(body: &Body<'_>, job_type: JobType) -> u32 {
    let count = body.number("count", 0..=i64::from(GROUP_COUNT_MAX)).unwrap_or(1);
    if job_type.is_per_node() && count > 1 {
        let message = format!("`{}` is {count} in a {} job", body.word("count"), job_type.as_str());
        let help = "such a job runs once on each node: take the count out";
        body.report.error_with_help(body.at("count"), message, help);
    }
    count
}

fn tasks(body: &Body<'_>, restart: RestartPolicy) -> Vec<Task> {
    let blocks = body.blocks("task", &TASK);
    let mut seen = HashSet::new();
    for block in &blocks {
        name::check_unique(block, &mut seen);
    }
    if body.lacks("task") {
        body.missing("group has no task", "write `task \"name\" { ... }` inside of the group");
    }
    let tasks: Vec<Task> = blocks.iter().map(|block| task::task(block, restart)).collect();
    if let Some((_, second)) = tasks.iter().zip(&blocks).filter(|(task, _)| task.leader).nth(1) {
        second.report.error(second.at("leader"), "only one task of a group may be its leader");
    }
    tasks
}

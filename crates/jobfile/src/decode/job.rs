//! Jobs.

use std::collections::HashSet;

use berth_model::{
    JobKey,
    job::{Group, Job, JobType, PRIORITY_DEFAULT},
};

use super::{constraint, group, name, spread};
use crate::schema::{Body, CONSTRAINT, GROUP, SPREAD, TASK};

const TYPES: &[(&str, JobType)] = &[
    ("service", JobType::Service),
    ("batch", JobType::Batch),
    ("system", JobType::System),
    ("sysbatch", JobType::Sysbatch),
];

pub(super) fn job(body: &Body<'_>) -> Job {
    let id = id(body);
    let job_type = body.choice("type", TYPES).unwrap_or(JobType::Service);
    Job {
        key: JobKey::new(&namespace(body), &id),
        name: body.filled_text("name").unwrap_or(id),
        region: body.filled_text("region").unwrap_or_else(|| "global".to_owned()),
        job_type,
        priority: body.number("priority", 1..=100).unwrap_or(PRIORITY_DEFAULT),
        all_at_once: body.flag("all_at_once").unwrap_or(false),
        datacenters: datacenters(body),
        node_pool: body.filled_text("node_pool").unwrap_or_else(|| "default".to_owned()),
        meta: body.text_map("meta"),
        constraints: constraint::constraints(&body.blocks("constraint", &CONSTRAINT)),
        spreads: spread::spreads(&body.blocks("spread", &SPREAD), job_type),
        groups: groups(body, job_type),
        stop: body.flag("Stop").unwrap_or(false),
    }
}

/// The `id` where it is given, else the label.
fn id(body: &Body<'_>) -> String {
    if !body.has("id") {
        return name::label(body);
    }
    let id = body.text("id").unwrap_or_default();
    name::check_id(body, &id, body.at("id"));
    id
}

fn namespace(body: &Body<'_>) -> String {
    let namespace = body.filled_text("namespace").unwrap_or_else(|| "default".to_owned());
    name::check_namespace(body, &namespace);
    namespace
}

fn datacenters(body: &Body<'_>) -> Vec<String> {
    let datacenters = body.texts("datacenters").unwrap_or_default();
    if datacenters.iter().any(String::is_empty) {
        body.report.error(body.at("datacenters"), "the name of a datacenter is empty");
    }
    if datacenters.is_empty() { vec!["*".to_owned()] } else { datacenters }
}

/// The groups; a task that stands directly in the job is a group of its own.
fn groups(body: &Body<'_>, job_type: JobType) -> Vec<Group> {
    let (groups, tasks) = (body.blocks("group", &GROUP), body.blocks("task", &TASK));
    let mut seen = HashSet::new();
    for block in groups.iter().chain(&tasks) {
        name::check_unique(block, &mut seen);
    }
    if body.lacks("group") && body.lacks("task") {
        body.missing(
            "job has no group",
            "write `group \"name\" { task \"name\" { ... } }` inside of the job",
        );
    }
    let groups = groups.iter().map(|block| group::group(block, job_type));
    groups.chain(tasks.iter().map(|block| group::of_task(block, job_type))).collect()
}

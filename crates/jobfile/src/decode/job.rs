//! Jobs.

use std::collections::HashSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_model::{
    JobKey,
    job::{Group, Job, JobType, PRIORITY_DEFAULT, Periodic, ReschedulePolicy, Update},
};

use super::{
    affinity, constraint,
    group::{self, JobDefaults},
    name, spread, task,
};
use crate::{
    blocks::with_times,
    excess::excess,
    record::COUNT,
    schema::{Body, STORED_OF_JOB},
};

/// Bytes that a dispatch may carry.
const PAYLOAD_BYTES_MAX: usize = 16 << 10;

const TYPES: &[(&str, JobType)] = &[
    ("service", JobType::Service),
    ("batch", JobType::Batch),
    ("system", JobType::System),
    ("sysbatch", JobType::Sysbatch),
];

/// How its groups are exchanged unless they say so themselves: services step by step, as in Nomad, also where nothing is
/// said of it. Nomad's servers report of the whole job's block how many go at once and how often, and nothing but zeros of the
/// rest, which stands in its groups.
fn update(body: &Body<'_>, job_type: JobType) -> Option<Box<Update>> {
    let of_groups = ["health_check", "min_healthy_time", "healthy_deadline", "progress_deadline"];
    let is_head = |block: &Body<'_>| {
        block.is_json() && of_groups.iter().all(|name| block.has(name) && block.lacks(name))
    };
    let Some(block) = body.block("update").filter(|block| is_head(block) && !body.lacks("update")) else {
        let default = || (job_type == JobType::Service).then(Box::default);
        return group::update(body, job_type, None).or_else(default);
    };
    let default = Update::default();
    let update = Update {
        stagger: block.duration("stagger").unwrap_or(default.stagger),
        max_parallel: block.number("max_parallel", COUNT).unwrap_or(default.max_parallel),
        ..default
    };
    group::warn_idle(body, "update", job_type, &update);
    Some(Box::new(update))
}

pub(super) fn job(body: &Body<'_>) -> Job {
    let id = id(body);
    let job_type = body.choice("type", TYPES).unwrap_or(JobType::Service);
    let reschedule = reschedule(body, job_type);
    let name = body.filled_text("name").unwrap_or_else(|| id.clone());
    let inherited = JobDefaults {
        job_type,
        job: name.clone(),
        is_dispatched: body.has("parameterized") || !body.lacks("Dispatched"),
        update: update(body, job_type),
        migrate: group::inherited(body, "migrate", job_type, None),
        reschedule: reschedule.unwrap_or(ReschedulePolicy::default_for(job_type)),
        vault: task::vault(body),
        secrets: body.records("secret"),
    };
    let job = Job {
        key: JobKey::new(&namespace(body), &id),
        name,
        region: body.filled_text("region").unwrap_or_else(|| "global".to_owned()),
        job_type,
        priority: body.number("priority", 1..=100).unwrap_or(PRIORITY_DEFAULT),
        all_at_once: body.flag("all_at_once").unwrap_or(false),
        datacenters: datacenters(body),
        node_pool: body.filled_text("node_pool").unwrap_or_else(|| "default".to_owned()),
        meta: body.text_map("meta"),
        constraints: constraint::constraints(body),
        spreads: spread::spreads(body, job_type),
        groups: groups(body, &inherited),
        stop: body.flag("Stop").unwrap_or(false),
        affinities: affinity::affinities(body, job_type),
        periodic: periodic(body),
        parameterized: body.optional("parameterized"),
        parent_id: body.filled_text("ParentID").unwrap_or_default(),
        dispatched: body.flag("Dispatched").unwrap_or(false),
        payload: payload(body),
        update: inherited.update,
        migrate: inherited.migrate,
        reschedule: reschedule.map(Box::new),
        kept: body.kept(STORED_OF_JOB),
    };
    if body.has("name") {
        name::check_shown(body, &job.name, || body.at("name"));
    }
    check_launches(body, &job);
    if let Some(excess) = excess(&job) {
        body.report.error_with_help(body.at_self(), excess.message, excess.help);
    }
    job
}

/// The `id` where it is given, else the label.
fn id(body: &Body<'_>) -> String {
    if !body.has("id") {
        return name::label(body);
    }
    let id = body.text("id").unwrap_or_default();
    name::check_id(body, &id, || body.at("id"));
    id
}

fn namespace(body: &Body<'_>) -> String {
    let namespace = body.filled_text("namespace").unwrap_or_else(|| body.report.namespace().to_owned());
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

fn reschedule(body: &Body<'_>, job_type: JobType) -> Option<ReschedulePolicy> {
    let default = ReschedulePolicy::default_for(job_type);
    body.has("reschedule").then(|| group::reschedule(body, job_type, default))
}

fn periodic(body: &Body<'_>) -> Option<Box<Periodic>> {
    let block = body.block("periodic")?;
    Some(Box::new(with_times(block.record(), &block)))
}

/// What a dispatch carries, which only servers write: base64, as all bytes in JSON.
fn payload(body: &Body<'_>) -> Vec<u8> {
    let Some(text) = body.filled_text("Payload") else { return Vec::new() };
    match STANDARD.decode(text) {
        Ok(payload) if payload.len() <= PAYLOAD_BYTES_MAX => payload,
        Ok(payload) => {
            let message = format!("payload has {} bytes, the limit is {PAYLOAD_BYTES_MAX}", payload.len());
            body.report.error(body.at("Payload"), message);
            Vec::new()
        }
        Err(_) => {
            body.report.error(body.at("Payload"), "payload is not base64");
            Vec::new()
        }
    }
}

fn check_launches(body: &Body<'_>, job: &Job) {
    let batch = job.job_type.runs_to_completion();
    for (name, is_set) in
        [("periodic", job.periodic.is_some()), ("parameterized", job.parameterized.is_some())]
    {
        if is_set && !batch {
            let message = format!("a {} job cannot be {name}", job.job_type.as_str());
            let help = "only jobs that end can be run again and again: write `type = \"batch\"`";
            body.report.error_with_help(body.at(name), message, help);
        }
    }
}

/// The groups; a task that stands directly in the job is a group of its own.
fn groups(body: &Body<'_>, inherited: &JobDefaults) -> Vec<Group> {
    let (groups, tasks) = (body.blocks("group"), body.blocks("task"));
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
    let groups = groups.iter().map(|block| group::group(block, inherited));
    groups.chain(tasks.iter().map(|block| group::of_task(block, inherited))).collect()
}

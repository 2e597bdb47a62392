//! Groups.

use std::collections::HashSet;

use berth_model::{
    job::{
        EphemeralDisk, GROUP_COUNT_MAX, Group, JobType, LogConfig, Migrate, ReschedulePolicy, RestartPolicy,
        Scaling, Secret, Task, Update, Volume,
    },
    value::Value,
};

use super::{affinity, constraint, name, network, spread, task};
use crate::{
    blocks::{ServiceContext, check_services, services, with_defaults},
    diagnostic::quoted,
    drivers,
    schema::{Body, STORED_OF_GROUP},
    suggest::nearest,
};

/// Blocks by which jobs of some types alone go, those types, and what to do about one in another job.
const OF_TYPES: [(&str, &[JobType], &str); 2] = [
    (
        "update",
        &[JobType::Service, JobType::System],
        "only service and system jobs have deployments: take the block out",
    ),
    (
        "migrate",
        &[JobType::Service],
        "only what a service job runs leaves a drained node step by step: take the block out",
    ),
];

/// What groups have from their job unless they say otherwise.
#[derive(Debug)]
pub(super) struct JobDefaults {
    /// The name of the job.
    pub job: String,
    pub job_type: JobType,
    /// Whether dispatches launch the job, or have launched it.
    pub is_dispatched: bool,
    pub update: Option<Box<Update>>,
    pub migrate: Option<Box<Migrate>>,
    pub reschedule: ReschedulePolicy,
    pub vault: Option<Value>,
    pub secrets: Vec<Secret>,
}

pub(super) fn group(body: &Body<'_>, job: &JobDefaults) -> Group {
    let default = RestartPolicy::default_for(job.job_type);
    let restart = body.block("restart").map_or(default, |block| block.record_over(default));
    let scaling: Option<Box<Scaling>> = body.optional("scaling");
    let (name, count) = (name::label(body), count(body, job.job_type, scaling.as_deref()));
    let group = Group {
        count,
        constraints: constraint::constraints(body),
        spreads: spread::spreads(body, job.job_type),
        restart,
        reschedule: reschedule(body, job.job_type, job.reschedule),
        disk: body.optional("ephemeral_disk").unwrap_or_default(),
        networks: network::networks(body),
        meta: body.text_map("meta"),
        shutdown_delay: body.duration("shutdown_delay").unwrap_or_default(),
        tasks: tasks(
            body,
            &task::GroupDefaults {
                owner: [job.job.clone(), name.clone()],
                job_type: job.job_type,
                is_dispatched: job.is_dispatched,
                restart,
                vault: task::vault(body).or_else(|| job.vault.clone()),
                secrets: body.records("secret").into_iter().chain(job.secrets.iter().cloned()).collect(),
            },
        ),
        affinities: affinity::affinities(body, job.job_type),
        update: update(body, job.job_type, job.update.as_deref()),
        migrate: inherited(body, "migrate", job.job_type, job.migrate.as_ref())
            .or_else(|| migrate_default(job.job_type)),
        disconnect: body.optional("disconnect"),
        services: services(body, &[&job.job, &name]),
        volumes: volumes(body),
        scaling: scaling.map(|scaling| horizontal(scaling, body, count)),
        max_run_duration: body.duration("max_run_duration"),
        kept: with_defaults(body.kept(STORED_OF_GROUP)),
        shares_resources: false,
        name,
    };
    let group = Group { shares_resources: group.has_phases(), ..group };
    check(body, &group);
    check_networks(body, &group);
    check_disconnect(body, &group);
    check_logs(body, &group);
    group
}

/// Reports logs that may fill the group's disk: whatever a task prints would end its allocation.
fn check_logs(body: &Body<'_>, group: &Group) {
    let disk = group.disk.size_mb;
    let most = |task: &Task| u64::from(task.logs.max_files) * u64::from(task.logs.max_file_size_mb);
    let fills = |task: &Task| !task.logs.disabled && most(task) >= u64::from(disk);
    // Opening every task of a huge job again would take as long as reading it.
    if disk == 0 || !group.tasks.iter().any(fills) {
        return;
    }
    for (task, of_task) in group.tasks.iter().zip(body.again("task")).filter(|(task, _)| fills(task)) {
        task_logs(task, disk, &of_task, body);
    }
}

/// The same of one task; `body` is that of its group.
fn task_logs(task: &Task, disk: u32, of_task: &Body<'_>, body: &Body<'_>) {
    let (files, size) = (task.logs.max_files, task.logs.max_file_size_mb);
    let message = format!(
        "the logs of task {} may take {} MiB ({files} files of {size} MiB), and its group's ephemeral_disk has {disk}",
        quoted(&task.name),
        u64::from(files) * u64::from(size)
    );
    let help =
        "lower `max_files` or `max_file_size` in the task's `logs`, or give `ephemeral_disk` a larger `size`";
    // Documents of clients and servers say what is the default, too.
    let own = of_task.again("logs").into_iter().next().filter(|_| task.logs != LogConfig::default());
    let stated = own.as_ref().and_then(|logs| {
        let name = ["max_file_size", "max_files"].into_iter().find(|name| logs.has(name))?;
        Some(logs.at(name))
    });
    match stated {
        Some(at) => body.report.error_with_help(at, message, help),
        // It is what tasks have unless they say otherwise.
        None => {
            let of_disk = body.again("ephemeral_disk");
            let at = of_disk.first().map_or_else(|| body.at_self(), |disk| disk.at("size"));
            body.report.warn(at, &message, help);
        }
    }
}

/// Reports what the group's network does not do for a task that lives in its node's, or that sees its node's files.
fn check_networks(body: &Body<'_>, group: &Group) {
    let Some(network) = group.networks.first() else { return };
    let says = |value: &Value| matches!(value, Value::List(texts) if !texts.is_empty());
    let has_dns = network.kept.get("DNS").is_some_and(
        |dns| matches!(dns, Value::Map(members) if members.iter().any(|(_, value)| says(value))),
    );
    let is_none = network.mode == "none";
    if !has_dns && !is_none {
        return;
    }
    let Some(block) = body.again("network").into_iter().next() else { return };
    for (task, of_task) in group.tasks.iter().zip(body.again("task")) {
        let is_raw = task.driver == "raw_exec";
        if is_raw && is_none {
            let message = format!(
                "task {} would have its node's network, and the group's is `none`",
                quoted(&task.name)
            );
            let help = "raw_exec isolates nothing: use the driver `exec`, or another network mode";
            body.report.error_with_help(of_task.at("driver"), message, help);
        }
        let is_of_host =
            task.config.get("network_mode").is_some_and(|mode| *mode == Value::String("host".to_owned()));
        if has_dns && (is_raw || is_of_host) {
            let message = format!(
                "`dns` changes nothing for task {}: it sees its node's resolv.conf",
                quoted(&task.name)
            );
            let help = "tasks of `exec`, and containers with a network of their own, have one that says so";
            block.report.warn(block.at("dns"), &message, help);
        }
    }
}

/// What happens when a node is disconnected is set once: by the block, or by the older settings.
fn check_disconnect(body: &Body<'_>, group: &Group) {
    const OLDER: [(&str, &str); 3] = [
        ("stop_after_client_disconnect", "StopAfterClientDisconnect"),
        ("max_client_disconnect", "MaxClientDisconnect"),
        ("prevent_reschedule_on_lost", "PreventRescheduleOnLost"),
    ];
    let says = |kept: Option<&Value>| matches!(kept, Some(Value::Int(1..) | Value::Bool(true)));
    let [stops, waits, prevents] = OLDER.map(|(name, kept)| says(group.kept.get(kept)).then_some(name));
    if let (Some(name), true) = (stops.or(waits).or(prevents), group.disconnect.is_some()) {
        let help = "the block says all that the older setting does: take the setting out";
        let message = format!("group has a disconnect block and `{name}`");
        body.report.error_with_help(body.at(name), message, help);
    }
    if let (Some(stops), Some(waits)) = (stops, waits) {
        let help = "an allocation is either waited for or stopped: take one of the two out";
        body.report.error_with_help(body.at(stops), format!("group has both `{waits}` and `{stops}`"), help);
    }
}

/// The group that a task makes which stands directly in a job.
pub(super) fn of_task(body: &Body<'_>, job: &JobDefaults) -> Group {
    let restart = RestartPolicy::default_for(job.job_type);
    let name = body.report.quietly(|| name::label(body));
    let owner = [job.job.clone(), name];
    let inherited = task::GroupDefaults {
        owner,
        job_type: job.job_type,
        is_dispatched: job.is_dispatched,
        restart,
        vault: job.vault.clone(),
        secrets: job.secrets.clone(),
    };
    let task = task::task(body, &inherited);
    let disk = EphemeralDisk::default().size_mb;
    if !task.logs.disabled
        && u64::from(task.logs.max_files) * u64::from(task.logs.max_file_size_mb) >= u64::from(disk)
    {
        task_logs(&task, disk, body, body);
    }
    let name = task.name.clone();
    Group {
        update: job.update.clone(),
        migrate: job.migrate.clone().or_else(|| migrate_default(job.job_type)),
        reschedule: job.reschedule,
        tasks: vec![task],
        ..Group::new(name, job.job_type)
    }
}

/// The default for how allocations of a job leave a node.
fn migrate_default(job_type: JobType) -> Option<Box<Migrate>> {
    (job_type == JobType::Service).then(Box::default)
}

/// How allocations are exchanged for those of a new version: the body's block over that of its job, if there is either.
///
/// A service has such a block by default. One of JSON that is nothing but zeros therefore says something if it names
/// `MaxParallel`: that there is to be no deployment.
pub(super) fn update(body: &Body<'_>, job_type: JobType, of_job: Option<&Update>) -> Option<Box<Update>> {
    let says_none = job_type == JobType::Service
        && body.is_left_out("update")
        && body.block("update").is_some_and(|block| block.has("max_parallel"));
    if says_none {
        return Some(Box::new(Update { max_parallel: 0, ..of_job.cloned().unwrap_or_default() }));
    }
    inherited(body, "update", job_type, of_job).map(Box::new)
}

/// A block of the group over that of its job, if there is either.
pub(super) fn inherited<R: crate::record::Record + Default>(
    body: &Body<'_>,
    name: &str,
    job_type: JobType,
    of_job: Option<&R>,
) -> Option<R> {
    let Some(block) = body.block(name).filter(|_| !body.is_left_out(name)) else { return of_job.cloned() };
    let record = block.record_over(of_job.cloned().unwrap_or_default());
    if record != R::default() {
        body.warn_unenforced(name);
    }
    warn_idle(body, name, job_type, &record);
    Some(record)
}

/// Warns of a block by which no job of its type goes. Clients in JSON send its defaults for every job, which says nothing.
pub(super) fn warn_idle<R: crate::record::Record + Default>(
    body: &Body<'_>,
    name: &str,
    job_type: JobType,
    record: &R,
) {
    let is_unset = body.is_json() && *record == R::default();
    let idle = OF_TYPES.iter().find(|(block, types, _)| *block == name && !types.contains(&job_type));
    if let Some((.., help)) = idle.filter(|_| !is_unset) {
        let message = format!("{} has no effect in a {} job", quoted(body.word(name)), job_type.as_str());
        body.report.warn(body.at(name), &message, help);
    }
}

/// The policy of the block over a default.
pub(super) fn reschedule(body: &Body<'_>, job_type: JobType, default: ReschedulePolicy) -> ReschedulePolicy {
    let Some(block) = body.block("reschedule") else { return default };
    // Who gives a limit wants one.
    let limited = block.has("attempts") || block.has("interval");
    let default = ReschedulePolicy { unlimited: default.unlimited && !limited, ..default };
    if !job_type.is_per_node() {
        return block.record_over(default);
    }
    let policy = block.unchecked_over(default);
    if policy != default {
        let message = format!("a {} job is never rescheduled", job_type.as_str());
        let help = "it runs on every node already: take the block out";
        block.report.error_with_help(block.at_self(), message, help);
    }
    policy
}

fn count(body: &Body<'_>, job_type: JobType, scaling: Option<&Scaling>) -> u32 {
    let default = scaling.filter(|_| bounds_say(body, "min")).map_or(1, |scaling| scaling.min);
    let count = body.number("count", 0..=i64::from(GROUP_COUNT_MAX)).unwrap_or(default);
    if job_type.is_per_node() && count > 1 {
        let message = format!("`{}` is {count} in a {} job", body.word("count"), job_type.as_str());
        let help = "such a job runs once on each node: take the count out";
        body.report.error_with_help(body.at("count"), message, help);
    }
    count
}

/// Whether a group's scaling block gives a setting.
fn bounds_say(body: &Body<'_>, name: &str) -> bool {
    body.again("scaling").first().is_some_and(|block| block.has(name))
}

/// Bounds of a group's `count`, which is the least where they do not say.
fn horizontal(mut scaling: Box<Scaling>, body: &Body<'_>, count: u32) -> Box<Scaling> {
    if scaling.kind.is_empty() {
        "horizontal".clone_into(&mut scaling.kind);
    }
    if !bounds_say(body, "min") {
        scaling.min = count;
    }
    scaling
}

/// By name, as JSON has them.
fn volumes(body: &Body<'_>) -> Vec<Volume> {
    let blocks = body.blocks("volume");
    let mut seen = HashSet::new();
    for block in &blocks {
        name::check_unique(block, &mut seen);
    }
    let mut volumes: Vec<Volume> = blocks.iter().map(Body::record).collect();
    volumes.sort_by(|a, b| a.name.cmp(&b.name));
    volumes
}

fn tasks(body: &Body<'_>, inherited: &task::GroupDefaults) -> Vec<Task> {
    let blocks = body.blocks("task");
    let mut seen = HashSet::new();
    for block in &blocks {
        name::check_unique(block, &mut seen);
    }
    if body.lacks("task") {
        body.missing("group has no task", "write `task \"name\" { ... }` inside of the group");
    }
    let tasks: Vec<Task> = blocks.iter().map(|block| task::task(block, inherited)).collect();
    if let Some((_, second)) = tasks.iter().zip(&blocks).filter(|(task, _)| task.leader).nth(1) {
        second.report.error(second.at("leader"), "only one task of a group may be its leader");
    }
    if !tasks.is_empty() && tasks.iter().all(|task| task.lifecycle.is_some()) {
        let help = "one task must be without a lifecycle block";
        let help = Some(help.to_owned()).filter(|_| !body.is_json());
        body.report.note(body.at_self(), "group has no main task".to_owned(), help);
    }
    tasks
}

/// Reports ports that a container is to have and its group does not.
fn check_ports(body: &Body<'_>, group: &Group, ports: &HashSet<&str>) {
    let names_ports = |task: &Task| task.config.contains_key("ports");
    if !group.tasks.iter().any(names_ports) {
        return;
    }
    for (task, block) in group.tasks.iter().zip(body.again("task")).filter(|(task, _)| names_ports(task)) {
        for (label, at) in drivers::ports(&block, &task.driver) {
            if ports.contains(label.as_str()) {
                continue;
            }
            let message = format!("the group's network has no port {}", quoted(&label));
            let help = nearest(&label, ports.iter().copied()).map_or_else(
                || format!("write `port \"{label}\" {{}}` in the group's `network`"),
                |meant| format!("did you mean `{meant}`?"),
            );
            body.report.error_with_help(at, message, help);
        }
    }
}

/// Reports names that one part of the group uses and no other part has.
fn check(body: &Body<'_>, group: &Group) {
    let ports: HashSet<&str> = group.ports().map(|port| port.label.as_str()).collect();
    let tasks: HashSet<&str> = group.tasks.iter().map(|task| task.name.as_str()).collect();
    let context = ServiceContext { ports: &ports, tasks: &tasks, in_task: false };
    check_services(&group.services, &body.again("service"), &context);
    check_ports(body, group, &ports);
    let volumes: HashSet<&str> = group.volumes.iter().map(|volume| volume.name.as_str()).collect();
    // Opening every task of a huge job again would take as long as reading it.
    if group.tasks.iter().any(|task| !task.services.is_empty() || !task.volume_mounts.is_empty()) {
        for (task, block) in group.tasks.iter().zip(body.again("task")) {
            check_services(
                &task.services,
                &block.again("service"),
                &ServiceContext { in_task: true, ..context },
            );
            task::check_mounts(task, &block, &volumes);
        }
    }
    if let Some(scaling) = group.scaling.as_deref() {
        let bounds = scaling.min..=scaling.max;
        if bounds.start() <= bounds.end() && !bounds.contains(&group.count) {
            let (min, max) = (scaling.min, scaling.max);
            let message = format!("count is {}, but scaling allows {min} to {max}", group.count);
            body.report.error(body.at("count"), message);
        }
    }
}

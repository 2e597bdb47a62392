//! A job as canonical JSON: Nomad's names, durations in nanoseconds, null for empty lists and maps.

use std::collections::BTreeMap;

use berth_model::{
    constraint::{Constraint, Spread},
    job::{Group, Job, Network, Port, ReschedulePolicy, RestartPolicy, Task},
    value::Value,
};
use serde_json::{Value as Json, json};

use crate::{decode, duration::to_nanos};

/// The canonical JSON of a job, which [`crate::parse_json`] reads back to the same job. What servers know about a job
/// beyond what its owner wrote (version, status, indices) is theirs to add.
pub fn to_json(job: &Job) -> Json {
    json!({
        "Namespace": &*job.key.namespace,
        "ID": &*job.key.id,
        "Name": job.name,
        "Region": job.region,
        "Type": job.job_type.as_str(),
        "Priority": job.priority,
        "AllAtOnce": job.all_at_once,
        "Datacenters": job.datacenters,
        "NodePool": job.node_pool,
        "Meta": texts(&job.meta),
        "Constraints": list(&job.constraints, constraint),
        "Spreads": list(&job.spreads, spread),
        "TaskGroups": list(&job.groups, group),
        "Stop": job.stop,
    })
}

fn group(group: &Group) -> Json {
    json!({
        "Name": group.name,
        "Count": group.count,
        "Constraints": list(&group.constraints, constraint),
        "Spreads": list(&group.spreads, spread),
        "RestartPolicy": restart(&group.restart),
        "ReschedulePolicy": reschedule(&group.reschedule),
        "EphemeralDisk": {
            "SizeMB": group.disk.size_mb,
            "Sticky": group.disk.sticky,
            "Migrate": group.disk.migrate,
        },
        "Networks": list(&group.networks, network),
        "Meta": texts(&group.meta),
        "ShutdownDelay": to_nanos(group.shutdown_delay),
        "Tasks": list(&group.tasks, task),
    })
}

fn task(task: &Task) -> Json {
    json!({
        "Name": task.name,
        "Driver": task.driver,
        "Config": map(&task.config, setting),
        "User": task.user,
        "Env": texts(&task.env),
        "Constraints": list(&task.constraints, constraint),
        "Resources": { "CPU": task.resources.cpu_mhz, "MemoryMB": task.resources.memory_mb },
        "RestartPolicy": restart(&task.restart),
        "Meta": texts(&task.meta),
        "KillTimeout": to_nanos(task.kill_timeout),
        "KillSignal": task.kill_signal,
        "LogConfig": {
            "MaxFiles": task.logs.max_files,
            "MaxFileSizeMB": task.logs.max_file_size_mb,
            "Disabled": task.logs.disabled,
        },
        "Leader": task.leader,
        "ShutdownDelay": to_nanos(task.shutdown_delay),
    })
}

fn restart(policy: &RestartPolicy) -> Json {
    json!({
        "Attempts": policy.attempts,
        "Interval": to_nanos(policy.interval),
        "Delay": to_nanos(policy.delay),
        "Mode": word(decode::RESTART_MODES, &policy.mode),
    })
}

fn reschedule(policy: &ReschedulePolicy) -> Json {
    json!({
        "Attempts": policy.attempts,
        "Interval": to_nanos(policy.interval),
        "Delay": to_nanos(policy.delay),
        "DelayFunction": word(decode::BACKOFFS, &policy.backoff),
        "MaxDelay": to_nanos(policy.max_delay),
        "Unlimited": policy.unlimited,
    })
}

fn constraint(constraint: &Constraint) -> Json {
    json!({
        "LTarget": constraint.left,
        "RTarget": constraint.right,
        "Operand": constraint.operator.as_str(),
    })
}

fn spread(spread: &Spread) -> Json {
    json!({
        "Attribute": spread.attribute,
        "Weight": spread.weight,
        "SpreadTarget": list(&spread.targets, |target| json!({ "Value": target.value, "Percent": target.percent })),
    })
}

fn network(network: &Network) -> Json {
    let (reserved, dynamic): (Vec<&Port>, Vec<&Port>) =
        network.ports.iter().partition(|port| port.fixed.is_some());
    json!({
        "Mode": network.mode,
        "DynamicPorts": list(&dynamic, |port| self::port(port)),
        "ReservedPorts": list(&reserved, |port| self::port(port)),
    })
}

fn port(port: &Port) -> Json {
    json!({ "Label": port.label, "Value": port.fixed.unwrap_or(0), "To": port.to })
}

fn setting(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::String(value) => value.as_str().into(),
        Value::List(items) => items.iter().map(setting).collect(),
        Value::Map(members) => members.iter().map(|(key, value)| (key.clone(), setting(value))).collect(),
    }
}

fn list<T>(items: &[T], write: impl Fn(&T) -> Json) -> Json {
    if items.is_empty() { Json::Null } else { items.iter().map(write).collect() }
}

fn map<T>(members: &BTreeMap<String, T>, write: impl Fn(&T) -> Json) -> Json {
    let member = |(key, value): (&String, &T)| (key.clone(), write(value));
    if members.is_empty() { Json::Null } else { members.iter().map(member).collect() }
}

fn texts(members: &BTreeMap<String, String>) -> Json {
    map(members, |text| text.as_str().into())
}

/// The word of a table that stands for a value.
fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, meant)| meant == value).map_or("", |(word, _)| word)
}

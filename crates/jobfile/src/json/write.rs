//! A job as canonical JSON: Nomad's names, durations in nanoseconds, null for empty lists and maps, and every member that
//! Nomad's clients read.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_duration::to_nanos;
use berth_model::{
    constraint::{Affinity, Constraint, Spread},
    device::DeviceAsk,
    job::{
        Group, IDENTITY_DEFAULT, Identity, Job, MEMORY_MAX_OF_NODE, Network, Periodic, Port, Task,
        TaskResources, Volume,
    },
    value::Value,
};
use serde_json::{Map, Value as Json, json};

use crate::{
    record::{Record, object, write},
    schema::{
        GROUP, JOB, NETWORK, RESOURCES, STORED_OF_GROUP, STORED_OF_JOB, STORED_OF_NETWORK,
        STORED_OF_RESOURCES, STORED_OF_TASK, TASK,
    },
};

/// The canonical JSON of a job, which [`crate::parse_json`] reads back to the same job. What servers know about a job
/// beyond what its owner wrote (version, status, indices) is theirs to add.
pub fn to_json(job: &Job) -> Json {
    let group = |group: &Group| {
        let json = group_to_json(group);
        // One of them on each node has nowhere else to go.
        let never = Map::from_iter([("ReschedulePolicy".to_owned(), Json::Null)]);
        if job.job_type.is_per_node() { with(json, never) } else { json }
    };
    let groups = list(&job.groups, group);
    with(head_to_json(job), Map::from_iter([("TaskGroups".to_owned(), groups)]))
}

/// The same without the job's groups: as JSON values, a thousand of them take many times what they take as they are.
pub fn head_to_json(job: &Job) -> Json {
    let payload = Some(&job.payload).filter(|payload| !payload.is_empty());
    with(
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
            "Affinities": list(&job.affinities, affinity),
            "Spreads": list(&job.spreads, spread),
            "Update": maybe(job.update.as_deref()),
            "Migrate": maybe(job.migrate.as_deref()),
            "Reschedule": maybe(job.reschedule.as_deref()),
            "Periodic": job.periodic.as_deref().map(periodic),
            "ParameterizedJob": maybe(job.parameterized.as_deref()),
            "ParentID": job.parent_id,
            "Dispatched": job.dispatched,
            "Payload": payload.map(|payload| STANDARD.encode(payload)),
            "Stop": job.stop,
        }),
        object(&JOB, STORED_OF_JOB, &job.kept),
    )
}

fn periodic(periodic: &Periodic) -> Json {
    let single = periodic.specs.first().filter(|_| periodic.is_single && periodic.specs.len() == 1);
    let mut members = Map::from_iter([
        ("SpecType".to_owned(), "cron".into()),
        ("Spec".to_owned(), single.map(String::as_str).unwrap_or_default().into()),
    ]);
    if single.is_some() {
        members.insert("Specs".to_owned(), Json::Null);
    }
    with(write(periodic), members)
}

/// One of the groups in the canonical JSON of a job.
pub fn group_to_json(group: &Group) -> Json {
    with(
        json!({
            "Name": group.name,
            "Count": group.count,
            "Constraints": list(&group.constraints, constraint),
            "Affinities": list(&group.affinities, affinity),
            "Spreads": list(&group.spreads, spread),
            "RestartPolicy": write(&group.restart),
            "ReschedulePolicy": write(&group.reschedule),
            "EphemeralDisk": write(&group.disk),
            "Networks": list(&group.networks, network),
            "Meta": texts(&group.meta),
            "ShutdownDelay": to_nanos(group.shutdown_delay),
            "Update": maybe(group.update.as_deref()),
            "Migrate": maybe(group.migrate.as_deref()),
            "Disconnect": maybe(group.disconnect.as_deref()),
            "Services": list(&group.services, write),
            "Volumes": volumes(&group.volumes),
            "Scaling": maybe(group.scaling.as_deref()),
            "MaxRunDuration": group.max_run_duration.map(to_nanos),
            "Tasks": list(&group.tasks, task),
        }),
        object(&GROUP, STORED_OF_GROUP, &group.kept),
    )
}

fn volumes(volumes: &[Volume]) -> Json {
    let volume = |volume: &Volume| (volume.name.clone(), write(volume));
    if volumes.is_empty() { Json::Null } else { volumes.iter().map(volume).collect() }
}

fn task(task: &Task) -> Json {
    let (default, named): (Vec<&Identity>, Vec<&Identity>) =
        task.identities.iter().partition(|identity| identity.name == IDENTITY_DEFAULT);
    let payload = Some(&task.dispatch_payload).filter(|file| !file.is_empty());
    with(
        json!({
            "Name": task.name,
            "Driver": task.driver,
            "Config": map(&task.config, setting),
            "User": task.user,
            "Env": texts(&task.env),
            "Constraints": list(&task.constraints, constraint),
            "Affinities": list(&task.affinities, affinity),
            "Resources": resources(&task.resources),
            "RestartPolicy": write(&task.restart),
            "Meta": texts(&task.meta),
            "KillTimeout": to_nanos(task.kill_timeout),
            "KillSignal": task.kill_signal,
            "LogConfig": write(&task.logs),
            "Leader": task.leader,
            "ShutdownDelay": to_nanos(task.shutdown_delay),
            "Lifecycle": maybe(task.lifecycle.as_ref()),
            "Artifacts": list(&task.artifacts, write),
            "Templates": list(&task.templates, write),
            "VolumeMounts": list(&task.volume_mounts, write),
            "DispatchPayload": payload.map(|file| json!({ "File": file })),
            "Services": list(&task.services, write),
            "Identity": maybe(default.first().copied()),
            "Identities": list(&named, |identity| write(*identity)),
            "ScalingPolicies": list(&task.scaling, write),
            "Secrets": list(&task.secrets, write),
        }),
        object(&TASK, STORED_OF_TASK, &task.kept),
    )
}

fn resources(resources: &TaskResources) -> Json {
    with(
        json!({
            "CPU": resources.cpu_mhz,
            "MemoryMB": resources.memory_mb,
            "Cores": resources.cores,
            "MemoryMaxMB": memory_max(resources.memory_max_mb),
            "Devices": list(&resources.devices, device),
        }),
        object(&RESOURCES, STORED_OF_RESOURCES, &resources.kept),
    )
}

/// All that the node has is -1.
fn memory_max(mb: u32) -> i64 {
    if mb == MEMORY_MAX_OF_NODE { -1 } else { i64::from(mb) }
}

fn device(ask: &DeviceAsk) -> Json {
    json!({
        "Name": ask.name,
        "Count": ask.count,
        "ShareMilli": ask.share_milli,
        "Constraints": list(&ask.constraints, constraint),
        "Affinities": list(&ask.affinities, affinity),
    })
}

fn constraint(constraint: &Constraint) -> Json {
    json!({
        "LTarget": constraint.left,
        "RTarget": constraint.right,
        "Operand": constraint.operator.as_str(),
    })
}

fn affinity(affinity: &Affinity) -> Json {
    json!({
        "LTarget": affinity.left,
        "RTarget": affinity.right,
        "Operand": affinity.operator.as_str(),
        "Weight": affinity.weight,
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
    with(
        json!({
            "Mode": network.mode,
            "Hostname": network.hostname,
            "DynamicPorts": list(&dynamic, |port| self::port(port)),
            "ReservedPorts": list(&reserved, |port| self::port(port)),
        }),
        object(&NETWORK, STORED_OF_NETWORK, &network.kept),
    )
}

fn port(port: &Port) -> Json {
    json!({
        "Label": port.label,
        "Value": port.fixed.unwrap_or(0),
        "To": if port.to_is_host { -1 } else { i32::from(port.to) },
        "HostNetwork": port.host_network,
        "IgnoreCollision": port.ignore_collision,
    })
}

/// A free-form setting.
pub(crate) fn setting(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::String(value) => value.as_str().into(),
        Value::List(items) => items.iter().map(setting).collect(),
        Value::Map(members) => members.iter().map(|(key, value)| (key.to_owned(), setting(value))).collect(),
    }
}

/// Items in order; null for none.
pub(crate) fn list<T>(items: &[T], write: impl Fn(&T) -> Json) -> Json {
    if items.is_empty() { Json::Null } else { items.iter().map(write).collect() }
}

/// Members by name; null for none.
pub(crate) fn map<T>(members: &BTreeMap<String, T>, write: impl Fn(&T) -> Json) -> Json {
    let member = |(key, value): (&String, &T)| (key.clone(), write(value));
    if members.is_empty() { Json::Null } else { members.iter().map(member).collect() }
}

fn texts(members: &BTreeMap<String, String>) -> Json {
    map(members, |text| text.as_str().into())
}

fn maybe<R: Record>(record: Option<&R>) -> Json {
    record.map_or(Json::Null, write)
}

/// An object with further members.
fn with(mut object: Json, more: Map<String, Json>) -> Json {
    if let Json::Object(members) = &mut object {
        members.extend(more);
    }
    object
}

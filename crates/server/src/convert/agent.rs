//! The agent protocol and the model: the only place where one becomes the other.

use std::collections::BTreeMap;

use berth_api::agent::{
    AllocHealth, AllocStatus, ArtifactSpec, ClientStatus as WireStatus, DeviceGrantSpec, DeviceSpec, DnsSpec,
    GroupSpec, HELLO_BYTES_MAX, HealthSpec, Heartbeat as WireHeartbeat, Hello as WireHello, HookSpec,
    IdentityChange, IdentitySpec, LogSpec, NetworkSpec, NodeChanged, NodeSpec, RestartModeSpec, RestartSpec,
    SecretSpec, TaskDevices, TaskEventEntry as WireEvent, TaskEventKind, TaskPhase as WireState, TaskSpec,
    TaskStatus, TemplateChange, TemplateScript, TemplateSpec, VolumeMountSpec, VolumeSpec, observed_hash,
};
use berth_controller::{Heartbeat, Hello};
use berth_model::{
    AllocId, Index, NodeId, Timestamp,
    alloc::ClientStatus,
    device::{DeviceGrant, DeviceInstance, NodeDevice},
    job::{
        Artifact, ChangeMode, Group, HealthCheck, Hook, Identity, Job, Lifecycle, Network, RestartMode,
        RestartPolicy, SECRETS_DIR, Secret, Task, Template, VOLUME_HOST, Volume, VolumeMount,
    },
    node::{DYNAMIC_PORT_MAX, DYNAMIC_PORT_MIN, NODE_POOL_ALL, Node},
    observed::{ObservedAlloc, ObservedTask, TaskEvent, TaskState},
    resources::Resources,
    value::Value,
};

use prost::Message;

use super::{checks::check_specs, value::to_json};

/// Events kept of one task, whatever the agent sends.
const EVENTS_MAX: usize = 10;
/// Longest name of a node, a datacenter, a pool or a class.
const NAME_BYTES_MAX: usize = 255;
/// Models of devices that a node may have, and devices in all.
const DEVICES_MAX: usize = 1_024;
const DEVICE_INSTANCES_MAX: usize = 4_096;
/// What an entry of a map takes in memory besides its texts, at most.
const MAP_ENTRY_BYTES: usize = 128;
/// Permissions of a file whose job says none.
const TEMPLATE_PERMS: u32 = 0o644;
/// Longest text kept of what an agent says.
const TEXT_BYTES_MAX: usize = 1024;

/// An agent's introduction; if it makes no sense, why.
///
/// # Errors
/// What is wrong with it.
pub fn hello(wire: WireHello) -> Result<Hello, String> {
    check_size(wire.encoded_len())?;
    let id = NodeId::from_slice(&wire.node_id).ok_or("the node's id is not 16 bytes long")?;
    if wire.secret.len() < 16 {
        return Err("the node's secret is shorter than 16 bytes".to_owned());
    }
    if !matches!(wire.cluster_id.len(), 0 | 16) || !matches!(wire.instance.len(), 0 | 16) {
        return Err("the ids of a cluster and of an agent's start are 16 bytes long".to_owned());
    }
    Ok(Hello {
        desired_digest: digest(&wire.desired_digest),
        observed_digest: digest(&wire.observed_digest),
        checkpoint: None,
        cluster: id128(&wire.cluster_id),
        instance: id128(&wire.instance),
        epoch: wire.epoch,
        dial: wire.dial,
        index: Index(wire.index),
        seq: wire.seq,
        node: node(id, secret_hash(&wire.secret), wire.node)?,
    })
}

/// A node that is another than its agent's session has reported so far, without the hash of its secret; if it makes no sense, why.
///
/// # Errors
/// What is wrong with it.
pub fn node_changed(id: NodeId, wire: NodeChanged) -> Result<Node, String> {
    check_size(wire.encoded_len())?;
    node(id, Vec::new(), wire.node)
}

/// What a hello may hold, an entry of the log can, and a message to another server.
fn check_size(bytes: usize) -> Result<(), String> {
    if bytes > HELLO_BYTES_MAX {
        return Err(format!(
            "the node is described in {bytes} bytes; it may have {HELLO_BYTES_MAX}: give it less metadata"
        ));
    }
    Ok(())
}

/// What a description of a node takes in memory, at most: small entries take many times their encoded bytes.
pub fn memory_bytes(node: &NodeSpec) -> usize {
    let of_devices = |device: &DeviceSpec| {
        size_of::<NodeDevice>()
            + device.instances.len() * size_of::<DeviceInstance>()
            + device.attributes.len() * MAP_ENTRY_BYTES
    };
    let entries = (node.attributes.len() + node.meta.len()) * MAP_ENTRY_BYTES;
    node.encoded_len() + entries + node.devices.iter().map(of_devices).sum::<usize>()
}

/// A sign of life.
pub fn heartbeat(wire: &WireHeartbeat) -> Heartbeat {
    Heartbeat {
        seq: wire.seq,
        desired_seq: wire.desired_seq,
        desired_digest: digest(&wire.desired_digest),
        observed_digest: digest(&wire.observed_digest),
    }
}

fn digest(bytes: &[u8]) -> u128 {
    berth_api::agent::Digest::from_slice(bytes).map_or(0, |digest| digest.0)
}

/// An id of 16 bytes; 0 for none.
fn id128(bytes: &[u8]) -> u128 {
    bytes.try_into().map_or(0, u128::from_be_bytes)
}

fn node(id: NodeId, secret_hash: Vec<u8>, spec: NodeSpec) -> Result<Node, String> {
    for (what, name) in [
        ("name", &spec.name),
        ("datacenter", &spec.datacenter),
        ("node pool", &spec.node_pool),
        ("class", &spec.node_class),
    ] {
        if name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
            return Err(format!(
                "the node's {what} has {} bytes; it may have {NAME_BYTES_MAX}, and no control characters",
                name.len()
            ));
        }
    }
    if spec.node_pool == NODE_POOL_ALL {
        return Err(format!("node pool {NODE_POOL_ALL:?} stands for every pool: give the node another one"));
    }
    let instances: usize = spec.devices.iter().map(|device| device.instances.len()).sum();
    if spec.devices.len() > DEVICES_MAX || instances > DEVICE_INSTANCES_MAX {
        return Err(format!(
            "the node has {instances} devices of {} models; it may have {DEVICE_INSTANCES_MAX} of {DEVICES_MAX}",
            spec.devices.len()
        ));
    }
    let or = |port: u32, default: u16| u16::try_from(port).ok().filter(|port| *port > 0).unwrap_or(default);
    let mut reserved_ports: Vec<u16> =
        spec.reserved_ports.iter().filter_map(|port| u16::try_from(*port).ok()).collect();
    reserved_ports.sort_unstable();
    reserved_ports.dedup();
    Ok(Node {
        id,
        name: spec.name,
        datacenter: spec.datacenter,
        pool: spec.node_pool,
        class: spec.node_class,
        attributes: spec.attributes,
        meta: spec.meta,
        total: Resources { cpu_mhz: spec.cpu_mhz, memory_mb: spec.memory_mb, disk_mb: spec.disk_mb },
        reserved: Resources {
            cpu_mhz: spec.reserved_cpu_mhz,
            memory_mb: spec.reserved_memory_mb,
            disk_mb: spec.reserved_disk_mb,
        },
        reserved_ports,
        host_ip: spec.host_ip,
        dynamic_ports: (
            or(spec.dynamic_port_min, DYNAMIC_PORT_MIN),
            or(spec.dynamic_port_max, DYNAMIC_PORT_MAX),
        ),
        secret_hash,
        devices: spec.devices.into_iter().map(device).collect(),
        cores: core_ids(&spec.cores),
    })
}

fn device(spec: DeviceSpec) -> NodeDevice {
    let instances = spec.instances.into_iter();
    NodeDevice {
        vendor: spec.vendor,
        kind: spec.kind,
        model: spec.model,
        attributes: spec.attributes,
        instances: instances.map(|one| DeviceInstance { id: one.id, healthy: !one.unhealthy }).collect(),
    }
}

fn core_ids(cores: &[u32]) -> Vec<u16> {
    let mut ids: Vec<u16> = cores.iter().filter_map(|core| u16::try_from(*core).ok()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// What of an allocation's devices and cores each task of its group asked for; of tasks that have any.
pub(crate) fn task_devices(group: &Group, grants: &[DeviceGrant], cores: &[u16]) -> Vec<TaskDevices> {
    let (mut grants, mut cores) = (grants.iter(), cores.iter());
    let each = group.tasks.iter().map(|task| TaskDevices {
        task: task.name.clone(),
        grants: grants.by_ref().take(task.resources.devices.len()).map(grant_spec).collect(),
        cores: cores.by_ref().take(task.resources.cores as usize).map(|core| u32::from(*core)).collect(),
    });
    each.filter(|devices| !devices.grants.is_empty() || !devices.cores.is_empty()).collect()
}

fn grant_spec(grant: &DeviceGrant) -> DeviceGrantSpec {
    DeviceGrantSpec {
        device: grant.device.clone(),
        ids: grant.instances.clone(),
        milli_each: grant.milli_each.into(),
    }
}

/// Secrets are 256 random bits, so that a fast hash keeps them.
pub fn secret_hash(secret: &[u8]) -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(secret).to_vec()
}

/// What an agent observed of an allocation; if it makes no sense, why.
///
/// # Errors
/// What is wrong with it.
pub fn observed(status: AllocStatus, encoded: &[u8]) -> Result<ObservedAlloc, String> {
    let id = AllocId::from_slice(&status.alloc_id).ok_or("an allocation's id is not 16 bytes long")?;
    let healthy = match status.health() {
        AllocHealth::Unknown => None,
        health => Some(health == AllocHealth::Healthy),
    };
    Ok(ObservedAlloc {
        id,
        status: client_status(status.status()),
        healthy,
        health_message: cut(status.health_message),
        revision: status.revision,
        description: cut(status.description),
        tasks: tight(status.tasks.into_iter().map(observed_task)),
        modified_at: Timestamp(status.modified_ns),
        hash: observed_hash(encoded),
    })
}

fn client_status(status: WireStatus) -> ClientStatus {
    match status {
        WireStatus::Pending => ClientStatus::Pending,
        WireStatus::Running => ClientStatus::Running,
        WireStatus::Complete => ClientStatus::Complete,
        WireStatus::Failed => ClientStatus::Failed,
        WireStatus::Lost => ClientStatus::Lost,
    }
}

fn observed_task(task: TaskStatus) -> ObservedTask {
    let state = match task.state() {
        WireState::Pending => TaskState::Pending,
        WireState::Running => TaskState::Running,
        WireState::Dead => TaskState::Dead,
    };
    let skip = task.events.len().saturating_sub(EVENTS_MAX);
    ObservedTask {
        state,
        failed: task.failed,
        restarts: task.restarts,
        last_restart: Timestamp(task.last_restart_ns),
        started_at: Timestamp(task.started_ns),
        finished_at: Timestamp(task.finished_ns),
        exit: (task.exit_code, task.signal, task.oom_killed),
        events: tight(task.events.into_iter().skip(skip).map(task_event)),
        name: cut(task.name),
    }
}

fn task_event(event: WireEvent) -> TaskEvent {
    let kind = TaskEventKind::try_from(event.kind).map_or("Unknown", TaskEventKind::as_str);
    TaskEvent {
        kind,
        at: Timestamp(event.at_ns),
        exit_code: event.exit_code,
        signal: event.signal,
        oom_killed: event.oom_killed,
        delay_ns: event.delay_ns,
        fails_task: event.fails_task,
        message: cut(event.message),
    }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.shrink_to_fit();
    }
    text
}

/// Without spare capacity from decoding: observations are stored for long.
fn tight<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.shrink_to_fit();
    items
}

/// A job's group as agents need it; where memory is oversubscribed, with what its tasks may use beyond their own.
pub(crate) fn group_spec(job: &Job, group: &Group, oversubscribed: bool) -> GroupSpec {
    let mut meta = job.meta.clone();
    meta.extend(group.meta.clone());
    GroupSpec {
        namespace: job.key.namespace.to_string(),
        job_id: job.key.id.to_string(),
        job_name: job.name.clone(),
        job_type: job.job_type.as_str().to_owned(),
        region: job.region.clone(),
        group: group.name.clone(),
        tasks: group.tasks.iter().map(|task| task_spec(task, oversubscribed)).collect(),
        meta,
        disk_mb: group.disk.size_mb,
        shutdown_delay_ms: millis(group.shutdown_delay),
        health: health_spec(job, group),
        checks: check_specs(group),
        max_run_ms: group.max_run_duration.map_or(0, millis),
        stop_after_silence_ms: group.on_disconnect().stops_after().map_or(0, |after| millis(after).max(1)),
        network: group.networks.first().and_then(network_spec),
        payload: payload(job, group),
        volumes: group.volumes.iter().filter(|volume| volume.kind == VOLUME_HOST).map(volume_spec).collect(),
        sticky_disk: group.disk.sticky,
    }
}

/// What a dispatch carries, for those who have a file for it.
fn payload(job: &Job, group: &Group) -> Vec<u8> {
    let is_wanted = group.tasks.iter().any(|task| !task.dispatch_payload.is_empty());
    if is_wanted { job.payload.clone() } else { Vec::new() }
}

fn volume_spec(volume: &Volume) -> VolumeSpec {
    VolumeSpec { name: volume.name.clone(), source: volume.source.clone(), read_only: volume.read_only }
}

fn artifact(artifact: &Artifact) -> ArtifactSpec {
    ArtifactSpec {
        source: artifact.source.clone(),
        destination: artifact.destination.clone(),
        mode: artifact.mode.clone(),
        options: artifact.options.clone(),
        headers: artifact.headers.clone(),
        insecure: artifact.insecure,
        chown: artifact.chown,
    }
}

/// What opens and closes an action unless the job says another.
const DELIMITERS: (&str, &str) = ("{{", "}}");

fn template(template: &Template) -> TemplateSpec {
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    let change = match template.change_mode {
        ChangeMode::Restart => TemplateChange::Restart,
        ChangeMode::Noop => TemplateChange::Noop,
        ChangeMode::Signal => TemplateChange::Signal,
        ChangeMode::Script => TemplateChange::Script,
    };
    let script = template.change_script.as_deref().map(|script| TemplateScript {
        command: script.command.clone(),
        args: script.args.clone(),
        timeout_ms: millis(script.timeout),
        fail_on_error: script.fail_on_error,
    });
    TemplateSpec {
        source: template.source.clone(),
        destination: template.destination.clone(),
        data: template.data.clone(),
        change: change.into(),
        signal: template.change_signal.clone(),
        script,
        once: template.once,
        splay_ms: millis(template.splay),
        perms: u32::from_str_radix(&template.perms, 8).unwrap_or(TEMPLATE_PERMS),
        uid: template.uid,
        gid: template.gid,
        left_delimiter: or(&template.left_delimiter, DELIMITERS.0),
        right_delimiter: or(&template.right_delimiter, DELIMITERS.1),
        env: template.env,
        error_on_missing_key: template.error_on_missing_key,
        wait_min_ms: template.wait.map_or(0, |wait| millis(wait.min)),
        wait_max_ms: template.wait.map_or(0, |wait| millis(wait.max)),
    }
}

fn volume_mount(mount: &VolumeMount) -> VolumeMountSpec {
    VolumeMountSpec {
        volume: mount.volume.clone(),
        destination: mount.destination.clone(),
        read_only: mount.read_only,
        propagation: mount.propagation_mode.clone(),
    }
}

/// None where it says nothing but which ports there are.
fn network_spec(network: &Network) -> Option<NetworkSpec> {
    let dns = match network.kept.get("DNS") {
        Some(Value::Map(members)) => {
            let texts = |name: &str| -> Vec<String> {
                let found = members.iter().find(|(known, _)| *known == name);
                let Some((_, Value::List(values))) = found else { return Vec::new() };
                let texts = values.iter().filter_map(|value| match value {
                    Value::String(text) => Some(text.clone()),
                    _ => None,
                });
                texts.collect()
            };
            Some(DnsSpec {
                servers: texts("Servers"),
                searches: texts("Searches"),
                options: texts("Options"),
            })
        }
        _ => None,
    };
    let mode = if network.mode == "host" { String::new() } else { network.mode.clone() };
    let spec = NetworkSpec { mode, hostname: network.hostname.clone(), dns };
    (spec != NetworkSpec::default()).then_some(spec)
}

/// The health requirements of its deployment for an allocation; an operator's word needs no agent.
fn health_spec(job: &Job, group: &Group) -> Option<HealthSpec> {
    let update = group.deployed_by(job.job_type)?;
    (update.health_check != HealthCheck::Manual).then(|| HealthSpec {
        min_healthy_ms: millis(update.min_healthy_time),
        deadline_ms: millis(update.healthy_deadline),
        checks: update.health_check == HealthCheck::Checks,
    })
}

/// What one must show that stands in for an allocation whose node is drained.
pub(crate) fn migrated_health(group: &Group) -> Option<HealthSpec> {
    let migrate = group.migrate.as_deref().cloned().unwrap_or_default();
    (migrate.health_check != HealthCheck::Manual).then(|| HealthSpec {
        min_healthy_ms: millis(migrate.min_healthy_time),
        deadline_ms: millis(migrate.healthy_deadline),
        checks: migrate.health_check == HealthCheck::Checks,
    })
}

fn task_spec(task: &Task, oversubscribed: bool) -> TaskSpec {
    let config: serde_json::Map<String, serde_json::Value> =
        task.config.iter().map(|(key, value)| (key.clone(), to_json(value))).collect();
    TaskSpec {
        name: task.name.clone(),
        driver: task.driver.clone(),
        config_json: serde_json::Value::Object(config).to_string(),
        user: task.user.clone(),
        env: task.env.clone(),
        cpu_mhz: task.resources.cpu_mhz,
        memory_mb: task.resources.memory_mb,
        memory_max_mb: if oversubscribed { task.resources.memory_max_mb } else { 0 },
        restart: restart_spec(&task.restart),
        meta: BTreeMap::clone(&task.meta),
        kill_timeout_ms: millis(task.kill_timeout),
        kill_signal: task.kill_signal.clone(),
        logs: LogSpec {
            max_files: task.logs.max_files,
            max_file_size_mb: task.logs.max_file_size_mb,
            disabled: task.logs.disabled,
        },
        leader: task.leader,
        shutdown_delay_ms: millis(task.shutdown_delay),
        payload_file: task.dispatch_payload.clone(),
        artifacts: task.artifacts.iter().map(artifact).collect(),
        identities: task.identities.iter().map(identity).collect(),
        secrets: task.secrets.iter().map(secret).collect(),
        templates: task.templates.iter().map(template).collect(),
        volume_mounts: task.volume_mounts.iter().map(volume_mount).collect(),
        hook: task.lifecycle.map_or(HookSpec::Main, |lifecycle| hook_spec(lifecycle.hook)).into(),
        sidecar: task.lifecycle.is_some_and(Lifecycle::is_sidecar),
    }
}

fn identity(identity: &Identity) -> IdentitySpec {
    let change = match &*identity.change_mode {
        "restart" => IdentityChange::Restart,
        "signal" => IdentityChange::Signal,
        _ => IdentityChange::Noop,
    };
    let path = identity.file_path();
    // What was registered before there were rules may lie elsewhere.
    let file = path.strip_prefix(SECRETS_DIR).filter(|_| identity.file).unwrap_or_default();
    IdentitySpec {
        name: identity.name.clone(),
        env: identity.env,
        file: file.to_owned(),
        change: change.into(),
        signal: identity.change_signal.clone(),
    }
}

fn secret(secret: &Secret) -> SecretSpec {
    SecretSpec { name: secret.name.clone(), files: secret.files().unwrap_or_default().to_owned() }
}

fn hook_spec(hook: Hook) -> HookSpec {
    match hook {
        Hook::Prestart => HookSpec::Prestart,
        Hook::Poststart => HookSpec::Poststart,
        Hook::Poststop => HookSpec::Poststop,
    }
}

fn restart_spec(policy: &RestartPolicy) -> RestartSpec {
    let mode = match policy.mode {
        RestartMode::Fail => RestartModeSpec::Fail,
        RestartMode::Delay => RestartModeSpec::Delay,
    };
    RestartSpec {
        attempts: policy.attempts,
        interval_ms: millis(policy.interval),
        delay_ms: millis(policy.delay),
        mode: mode.into(),
    }
}

pub(super) fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use berth_api::agent::{FEATURES, FEATURES_ATTRIBUTE};
    use berth_model::command::{Command, ENTRY_BYTES_MAX, EncodedCommands};
    use berth_scheduler::filters;

    use super::*;

    fn introduce(change: impl FnOnce(&mut WireHello)) -> Result<Hello, String> {
        let mut wire = WireHello { node_id: vec![1; 16], secret: vec![2; 16], ..WireHello::default() };
        change(&mut wire);
        hello(wire)
    }

    /// Servers exchange and store observations by the names of the model alone.
    #[test]
    fn each_kind_of_a_tasks_event_is_known_to_those_who_keep_it() {
        let kinds: Vec<_> = (0..64).filter_map(|kind| TaskEventKind::try_from(kind).ok()).collect();
        assert!(kinds.contains(&TaskEventKind::Template), "{kinds:?}");
        for kind in kinds {
            let event = TaskEvent { kind: kind.as_str(), ..TaskEvent::default() };
            let read: TaskEvent = minicbor::decode(&minicbor::to_vec(&event).unwrap()).unwrap();
            assert_eq!(read.kind, kind.as_str());
        }
    }

    #[test]
    fn names_of_nodes_are_short_and_printable() {
        assert!(introduce(|hello| hello.node.name = "n".repeat(NAME_BYTES_MAX)).is_ok());
        let reason = introduce(|hello| hello.node.name = "n".repeat(NAME_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(reason, "the node's name has 256 bytes; it may have 255, and no control characters");
        assert!(
            introduce(|hello| hello.node.node_class = "a\u{1b}[2J".into()).unwrap_err().contains("class")
        );
    }

    #[test]
    fn agents_announce_all_features_that_the_scheduler_requires() {
        let requested: BTreeSet<&str> = filters::Feature::ALL.map(filters::Feature::name).into();
        assert_eq!(requested, FEATURES.iter().copied().collect());
        assert_eq!(filters::FEATURES_ATTRIBUTE, FEATURES_ATTRIBUTE);
    }

    #[test]
    fn a_node_is_described_in_as_much_as_fits_everywhere() {
        let with_meta = |bytes: usize| {
            introduce(|hello| {
                hello.node.meta.insert("m".into(), String::new());
                let head = hello.encoded_len() + 8;
                hello.node.meta.insert("m".into(), "x".repeat(bytes - head));
            })
        };
        assert!(with_meta(HELLO_BYTES_MAX - 8).is_ok());
        let reason = with_meta(HELLO_BYTES_MAX + 8).unwrap_err();
        assert!(reason.contains("it may have 262144: give it less metadata"), "{reason}");
        let wire =
            NodeChanged { node: NodeSpec { host_ip: "x".repeat(HELLO_BYTES_MAX), ..NodeSpec::default() } };
        assert!(node_changed(NodeId(1), wire).unwrap_err().contains("it may have 262144"));
    }

    #[test]
    fn a_node_has_so_many_devices_and_no_more() {
        let with = |models: usize, instances: usize| {
            introduce(|hello| {
                hello.node.devices = vec![DeviceSpec::default(); models];
                hello.node.devices[0].instances = vec![Default::default(); instances];
            })
        };
        assert!(with(DEVICES_MAX, DEVICE_INSTANCES_MAX).is_ok());
        assert!(with(DEVICES_MAX + 1, 0).is_err());
        let reason = with(1, DEVICE_INSTANCES_MAX + 1).unwrap_err();
        assert_eq!(reason, "the node has 4097 devices of 1 models; it may have 4096 of 1024");
    }

    /// Whatever a hello holds: the leader and other servers take the node for granted.
    #[test]
    fn what_a_hello_may_hold_fits_an_entry() {
        type Change<'c> = &'c dyn Fn(&mut NodeSpec, u32);
        let fill = |change: Change<'_>| {
            let mut wire = WireHello { node_id: vec![1; 16], secret: vec![2; 16], ..WireHello::default() };
            for step in 0.. {
                let before = wire.clone();
                (0..64).for_each(|within| change(&mut wire.node, 64 * step + within));
                let is_full = wire.encoded_len() > HELLO_BYTES_MAX || wire == before;
                if is_full || hello(wire.clone()).is_err() {
                    return before;
                }
            }
            unreachable!("every message ends")
        };
        let entries: [Change<'_>; 4] = [
            &|node, at| drop(node.attributes.insert(format!("{at:x}"), String::new())),
            &|node, at| node.reserved_ports.push(at % (1 << 16)),
            &|node, at| node.cores.push(at % (1 << 16)),
            &|node, _| node.devices.push(DeviceSpec::default()),
        ];
        for change in entries {
            let wire = fill(change);
            let memory = memory_bytes(&wire.node);
            assert!(memory < 32 << 20, "{memory} bytes in memory");
            let node = hello(wire).expect("it was taken before").node;
            let bytes = EncodedCommands::from(vec![Command::RegisterNode(Box::new(node))]).bytes_len();
            assert!(bytes < ENTRY_BYTES_MAX / 2, "{bytes} bytes");
        }
    }

    #[test]
    fn ids_have_sixteen_bytes() {
        assert!(introduce(|hello| hello.cluster_id = vec![0; 15]).unwrap_err().contains("16 bytes"));
        assert_eq!(
            introduce(|hello| hello.instance = vec![1; 16]).unwrap().instance,
            u128::from_be_bytes([1; 16])
        );
        assert_eq!(introduce(|_| {}).unwrap().cluster, 0);
    }
}

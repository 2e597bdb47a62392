//! What agents say, as the model has it: hellos, nodes and statuses of allocations.

use berth_api::agent::{
    AllocHealth, AllocStatus, ClientStatus as WireStatus, DeviceSpec, HELLO_BYTES_MAX,
    Heartbeat as WireHeartbeat, Hello as WireHello, NodeChanged, NodeSpec, TaskEventEntry as WireEvent,
    TaskEventKind, TaskPhase as WireState, TaskStatus, observed_hash,
};
use berth_controller::{Heartbeat, Hello};
use berth_model::{
    AllocId, Index, NodeId, Timestamp,
    alloc::ClientStatus,
    device::{DeviceInstance, NodeDevice},
    node::{DYNAMIC_PORT_MAX, DYNAMIC_PORT_MIN, NODE_POOL_ALL, Node},
    observed::{ObservedAlloc, ObservedTask, TaskEvent, TaskState},
    resources::Resources,
};

use prost::Message;

/// Events kept of one task, whatever the agent sends.
const EVENTS_MAX: usize = 10;
/// Longest name of a node, a datacenter, a pool or a class.
const NAME_BYTES_MAX: usize = 255;
/// Models of devices that a node may have, and devices in all.
const DEVICES_MAX: usize = 1_024;
const DEVICE_INSTANCES_MAX: usize = 4_096;
/// What an entry of a map takes in memory besides its texts, at most.
const MAP_ENTRY_BYTES: usize = 128;
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

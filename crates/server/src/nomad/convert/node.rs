//! Nodes: whole, and in lists.

use std::collections::BTreeMap;

use berth_api::http::{
    DrainSpec, DrainStrategy, DriverInfo, HostVolume, LastDrain, Node, NodeCpu, NodeDisk, NodeEvent,
    NodeMemory, NodeNetwork, NodeNetworkAddress, NodeProcessors, NodeResources, NodeStub, ReservedNetworks,
    ReservedResources, Time,
};
use berth_model::{
    node,
    store::{NodeDetail, NodeRow},
};

use super::{alloc::amounts, device::devices};

/// Fingerprints of drivers are named so.
const DRIVER_PREFIX: &str = "driver.";
/// Those of network interfaces.
const INTERFACE_PREFIX: &str = "unique.network.interface.";
/// The fingerprint that names the agent's version.
const VERSION_ATTRIBUTE: &str = "berth.version";
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// What a list may have in addition.
#[derive(Debug, Clone, Copy)]
pub struct NodeStubParts {
    /// All of the machine.
    pub resources: bool,
    /// Its fingerprinted attributes.
    pub attributes: bool,
}

/// A node in a list.
pub fn node_stub(row: &NodeRow, detail: &NodeDetail, with: NodeStubParts) -> NodeStub {
    let node = &detail.node;
    NodeStub {
        id: node.id.to_string(),
        address: node.host_ip.clone(),
        attributes: with.attributes.then(|| node.attributes.clone()),
        datacenter: node.datacenter.clone(),
        name: node.name.clone(),
        node_class: node.class.clone(),
        node_pool: node.pool.clone(),
        version: node.attributes.get(VERSION_ATTRIBUTE).cloned().unwrap_or_default(),
        drain: detail.draining().is_some(),
        last_drain: detail.drain.as_deref().map(last_drain),
        scheduling_eligibility: eligibility(row.eligible).to_owned(),
        status: row.status.as_str().to_owned(),
        status_description: String::new(),
        drivers: drivers(node),
        node_resources: with.resources.then(|| resources(detail)),
        reserved_resources: with.resources.then(|| reserved(node)),
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
    }
}

/// A node. The hash of its secret stays here.
pub fn node(row: &NodeRow, detail: &NodeDetail) -> Node {
    let node = &detail.node;
    Node {
        id: node.id.to_string(),
        datacenter: node.datacenter.clone(),
        name: node.name.clone(),
        http_addr: String::new(),
        attributes: node.attributes.clone(),
        meta: node.meta.clone(),
        node_resources: resources(detail),
        reserved_resources: reserved(node),
        resources: amounts(node.total),
        reserved: amounts(node.reserved),
        node_class: node.class.clone(),
        node_pool: node.pool.clone(),
        drain: detail.draining().is_some(),
        drain_strategy: detail.draining().map(drain_strategy),
        last_drain: detail.drain.as_deref().map(last_drain),
        scheduling_eligibility: eligibility(row.eligible).to_owned(),
        status: row.status.as_str().to_owned(),
        status_description: String::new(),
        status_updated_at: detail.status_at.0 / NANOS_PER_SECOND,
        drivers: drivers(node),
        host_volumes: host_volumes(node),
        events: detail.events().iter().map(event).collect(),
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
    }
}

/// The word for whether new work may be placed on a node.
pub fn eligibility(eligible: bool) -> &'static str {
    if eligible { "eligible" } else { "ineligible" }
}

fn drain_strategy(drain: &node::Drain) -> DrainStrategy {
    DrainStrategy {
        spec: DrainSpec { deadline: drain.requested_ns, ignore_system_jobs: drain.ignore_system },
        force_deadline: Time(drain.deadline.unwrap_or_default().0),
        started_at: Time(drain.started_at.0),
    }
}

fn last_drain(last: &node::LastDrain) -> LastDrain {
    LastDrain {
        started_at: Time(last.started_at.0),
        updated_at: Time(last.updated_at.0),
        status: last.status.as_str().to_owned(),
        accessor_id: String::new(),
        meta: last.meta.clone(),
    }
}

fn resources(detail: &NodeDetail) -> NodeResources {
    let node = &detail.node;
    NodeResources {
        cpu: NodeProcessors { cpu_shares: node.total.cpu_mhz, reservable_cpu_cores: node.cores.clone() },
        memory: NodeMemory { memory_mb: node.total.memory_mb },
        disk: NodeDisk { disk_mb: node.total.disk_mb },
        min_dynamic_port: node.dynamic_ports.0,
        max_dynamic_port: node.dynamic_ports.1,
        devices: node.devices.iter().map(|device| devices(device, &detail.devices)).collect(),
        node_networks: networks(node),
    }
}

/// Told by fingerprints like `unique.network.interface.eth0.addresses = 10.0.0.5,fd00::5`.
fn networks(node: &node::Node) -> Vec<NodeNetwork> {
    let attributes = node.attributes.iter().filter_map(|(name, value)| {
        // An interface's name may have dots in it.
        let (device, what) = name.strip_prefix(INTERFACE_PREFIX)?.rsplit_once('.')?;
        Some((device, what, value))
    });
    let mut networks = BTreeMap::<&str, NodeNetwork>::new();
    for (device, what, value) in attributes {
        let network = networks.entry(device).or_default();
        match what {
            "addresses" => network.addresses = value.split(',').map(|text| address(node, text)).collect(),
            "mac" => network.mac_address.clone_from(value),
            "speed_mbits" => network.speed = value.parse().unwrap_or_default(),
            _ => {}
        }
    }
    let named = |(device, network): (&str, NodeNetwork)| NodeNetwork {
        mode: "host".to_owned(),
        device: device.to_owned(),
        ..network
    };
    networks.into_iter().map(named).collect()
}

fn address(node: &node::Node, text: &str) -> NodeNetworkAddress {
    let named = || {
        let networks = node.attributes.iter().filter(|(_, address)| *address == text);
        networks.filter_map(|(name, _)| name.strip_prefix(node::HOST_NETWORK_PREFIX)).next()
    };
    let alias = if text == node.host_ip { Some(node::HOST_NETWORK_DEFAULT) } else { named() };
    NodeNetworkAddress {
        alias: alias.unwrap_or_default().to_owned(),
        address: text.to_owned(),
        family: if text.contains(':') { "ipv6" } else { "ipv4" }.to_owned(),
    }
}

fn reserved(node: &node::Node) -> ReservedResources {
    let ports: Vec<String> = node.reserved_ports.iter().map(u16::to_string).collect();
    ReservedResources {
        cpu: NodeCpu { cpu_shares: node.reserved.cpu_mhz },
        memory: NodeMemory { memory_mb: node.reserved.memory_mb },
        disk: NodeDisk { disk_mb: node.reserved.disk_mb },
        networks: ReservedNetworks { reserved_host_ports: ports.join(",") },
    }
}

fn event(event: &node::NodeEvent) -> NodeEvent {
    NodeEvent {
        message: event.kind.as_str().to_owned(),
        subsystem: event.kind.subsystem().to_owned(),
        details: BTreeMap::new(),
        timestamp: Time(event.at.0),
        create_index: event.index.0,
    }
}

/// Told by fingerprints like `host_volume.data = read-only`.
fn host_volumes(node: &node::Node) -> BTreeMap<String, HostVolume> {
    let volume = |(name, access): (&String, &String)| {
        let name = name.strip_prefix(node::HOST_VOLUME_PREFIX)?.to_owned();
        let read_only = access == node::HOST_VOLUME_READ_ONLY;
        Some((name.clone(), HostVolume { name, read_only, path: String::new() }))
    };
    node.attributes.iter().filter_map(volume).collect()
}

/// Told by fingerprints like `driver.exec = 1`; longer names describe the driver and are not drivers, but for why there
/// is none: `driver.exec.health_description`.
fn drivers(node: &node::Node) -> BTreeMap<String, DriverInfo> {
    let named =
        node.attributes.iter().filter_map(|(name, value)| Some((name.strip_prefix(DRIVER_PREFIX)?, value)));
    let mut drivers = BTreeMap::new();
    for (name, value) in named {
        let (name, rest) = name.split_once('.').unwrap_or((name, ""));
        let known = || DriverInfo { detected: false, healthy: false, health_description: String::new() };
        match rest {
            "" => {
                let driver = drivers.entry(name.to_owned()).or_insert_with(known);
                (driver.detected, driver.healthy) = (true, matches!(value.as_str(), "1" | "true"));
            }
            "health_description" => {
                drivers.entry(name.to_owned()).or_insert_with(known).health_description = value.clone();
            }
            _ => {}
        }
    }
    drivers
}

#[cfg(test)]
mod tests {
    use berth_model::{NodeId, resources::Resources};

    use super::*;

    #[test]
    fn interfaces_have_their_addresses_and_networks() {
        let attributes = [
            ("unique.network.interface.eth0.addresses", "10.0.0.5,fd00::5"),
            ("unique.network.interface.eth0.mac", "02:00:00:00:00:01"),
            ("unique.network.interface.eth0.speed_mbits", "1000"),
            ("unique.network.interface.eth0.7.addresses", "192.0.2.7"),
            ("host_network.public", "192.0.2.7"),
        ];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let node = node::Node::new(NodeId(1), "n1", Resources::ZERO);
        let node = node::Node { attributes, host_ip: "10.0.0.5".into(), ..node };
        let shown: Vec<String> = networks(&node)
            .iter()
            .map(|NodeNetwork { device, mac_address, speed, addresses, .. }| {
                let of = |one: &NodeNetworkAddress| format!(" {}={}/{}", one.alias, one.address, one.family);
                format!("{device} {mac_address} {speed}:{}", addresses.iter().map(of).collect::<String>())
            })
            .collect();
        let expected = [
            "eth0 02:00:00:00:00:01 1000: default=10.0.0.5/ipv4 =fd00::5/ipv6",
            "eth0.7  0: public=192.0.2.7/ipv4",
        ];
        assert_eq!(shown, expected);
    }
}

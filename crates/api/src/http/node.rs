//! Nodes: in lists, and whole.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NodeDeviceResource, TaskResources, Time};

/// A node in a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeStub {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Where its allocations' ports are reached.
    pub address: String,
    /// Fingerprints, when asked for with `os=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<BTreeMap<String, String>>,
    /// The datacenter's name.
    pub datacenter: String,
    /// A name to read; it need not be unique.
    pub name: String,
    /// The operator's own class.
    pub node_class: String,
    /// The node pool's name.
    pub node_pool: String,
    /// Its agent's version.
    pub version: String,
    /// Whether it is drained.
    pub drain: bool,
    /// Its last drain.
    pub last_drain: Option<LastDrain>,
    /// `eligible` or `ineligible`.
    pub scheduling_eligibility: String,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: String,
    /// In words, why its status is what it is.
    pub status_description: String,
    /// By name.
    pub drivers: BTreeMap<String, DriverInfo>,
    /// All of the machine, when asked for with `resources=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_resources: Option<NodeResources>,
    /// What allocations may not have, when asked for with `resources=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_resources: Option<ReservedResources>,
    /// Its registration.
    pub create_index: u64,
    /// The last change of the node itself.
    pub modify_index: u64,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Node {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// The datacenter's name.
    pub datacenter: String,
    /// A name to read; it need not be unique.
    pub name: String,
    /// Always empty: agents are reached through servers.
    #[serde(rename = "HTTPAddr")]
    pub http_addr: String,
    /// Fingerprints.
    pub attributes: BTreeMap<String, String>,
    /// The operator's own labels.
    pub meta: BTreeMap<String, String>,
    /// All of the machine.
    pub node_resources: NodeResources,
    /// What allocations may not have.
    pub reserved_resources: ReservedResources,
    /// All of the machine in the older form, without which older clients break off.
    pub resources: TaskResources,
    /// What allocations may not have, in that form.
    pub reserved: TaskResources,
    /// The operator's own class.
    pub node_class: String,
    /// The node pool's name.
    pub node_pool: String,
    /// Whether it is drained.
    pub drain: bool,
    /// How it is drained; none when it is not.
    pub drain_strategy: Option<DrainStrategy>,
    /// Its last drain.
    pub last_drain: Option<LastDrain>,
    /// `eligible` or `ineligible`.
    pub scheduling_eligibility: String,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: String,
    /// In words, why its status is what it is.
    pub status_description: String,
    /// When the status last changed, seconds since the epoch.
    pub status_updated_at: u64,
    /// By name.
    pub drivers: BTreeMap<String, DriverInfo>,
    /// By name.
    pub host_volumes: BTreeMap<String, HostVolume>,
    /// Its ten newest events, oldest first.
    pub events: Vec<NodeEvent>,
    /// Its registration.
    pub create_index: u64,
    /// The last change of the node itself.
    pub modify_index: u64,
}

/// An event of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeEvent {
    /// Human-readable description of the event.
    pub message: String,
    /// What it is about: `Cluster`, `Heartbeat` or `Drain`.
    pub subsystem: String,
    /// Always empty: the message says all there is.
    pub details: BTreeMap<String, String>,
    /// Time of the event.
    pub timestamp: Time,
    /// The index of the change.
    pub create_index: u64,
}

/// A directory of a node that groups may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostVolume {
    /// As a group's `volume` names it in `source`.
    pub name: String,
    /// Always empty: where it lies is known to the node's agent alone.
    pub path: String,
    /// Nobody may write there.
    pub read_only: bool,
}

/// How a node is to be drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DrainSpec {
    /// Nanoseconds until what is left is stopped: 0 for as long as it takes, less for at once.
    pub deadline: i64,
    /// Leave allocations of system jobs running.
    pub ignore_system_jobs: bool,
}

/// How a node is drained.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DrainStrategy {
    /// As it was asked for.
    #[serde(flatten)]
    pub spec: DrainSpec,
    /// When what is left is stopped.
    pub force_deadline: Time,
    /// When it began.
    pub started_at: Time,
}

/// The last drain of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct LastDrain {
    /// When it began.
    pub started_at: Time,
    /// When it last changed.
    pub updated_at: Time,
    /// `draining`, `complete` or `canceled`.
    pub status: String,
    /// Always empty: there are no tokens yet.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// What was said of it.
    pub meta: BTreeMap<String, String>,
}

/// The body of `PUT /v1/node/:id/drain`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeDrain {
    /// The node; that of the path when empty.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// How; none to call off what goes on.
    pub drain_spec: Option<DrainSpec>,
    /// Without a drain: whether new work may come again.
    pub mark_eligible: bool,
    /// What is said of it.
    pub meta: Option<BTreeMap<String, String>>,
}

/// What a machine has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeResources {
    /// Processors.
    pub cpu: NodeProcessors,
    /// Main memory.
    pub memory: NodeMemory,
    /// Disk for allocations.
    pub disk: NodeDisk,
    /// First of the ports handed out to allocations that name none.
    pub min_dynamic_port: u16,
    /// Last of these.
    pub max_dynamic_port: u16,
    /// By vendor, type and model.
    pub devices: Vec<NodeDeviceResource>,
    /// Its interfaces, by name.
    pub node_networks: Vec<NodeNetwork>,
}

/// A network interface of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeNetwork {
    /// Always `host`.
    pub mode: String,
    /// Its name, as `eth0`.
    pub device: String,
    /// Empty where it has none.
    pub mac_address: String,
    /// Megabits a second; 0 where the kernel does not report it.
    pub speed: u32,
    /// Those that hold beyond its own link.
    pub addresses: Vec<NodeNetworkAddress>,
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeNetworkAddress {
    /// The network that ports are taken from by this name; `default` for the node's first, empty for none.
    pub alias: String,
    /// As `10.0.0.5`.
    pub address: String,
    /// `ipv4` or `ipv6`.
    pub family: String,
}

/// The processors of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeProcessors {
    /// MHz of all.
    pub cpu_shares: u32,
    /// Ids of the cores that tasks may have for themselves alone.
    pub reservable_cpu_cores: Vec<u16>,
}

/// What allocations may not have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ReservedResources {
    /// Processor time.
    pub cpu: NodeCpu,
    /// Main memory.
    pub memory: NodeMemory,
    /// Disk.
    pub disk: NodeDisk,
    /// Ports.
    pub networks: ReservedNetworks,
}

/// Processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeCpu {
    /// MHz.
    pub cpu_shares: u32,
}

/// Main memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeMemory {
    /// MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: u32,
}

/// Disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeDisk {
    /// MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: u32,
}

/// Ports that allocations may not have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ReservedNetworks {
    /// Separated by commas, ascending.
    pub reserved_host_ports: String,
}

/// A driver on a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DriverInfo {
    /// Whether the node has it.
    pub detected: bool,
    /// Whether it works.
    pub healthy: bool,
    /// Why not, for people.
    pub health_description: String,
}

/// The body of `PUT /v1/node/:id/eligibility`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeEligibility {
    /// The node; that of the path when empty.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// `eligible` or `ineligible`.
    pub eligibility: String,
}

/// The answer to a change of eligibility.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeEligibilityChanged {
    /// Where the node changed.
    pub node_modify_index: u64,
    /// Always empty: the server makes evaluations by itself.
    #[serde(rename = "EvalIDs")]
    pub eval_ids: Vec<String>,
    /// Always 0.
    pub eval_create_index: u64,
    /// Readers that ask for this index see the change.
    pub index: u64,
}

/// The answer to evaluating a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeEvaluated {
    /// One for each job that has an allocation on the node which has not ended, and for each system job of its pool.
    #[serde(rename = "EvalIDs")]
    pub eval_ids: Vec<String>,
    /// Where the last of them was made; 0 for none.
    pub eval_create_index: u64,
    /// Where the node last changed.
    pub node_modify_index: u64,
    /// Readers that ask for this index see them.
    pub index: u64,
}

/// The answer to forgetting a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodePurged {
    /// Always empty: nothing that still runs was on the node.
    #[serde(rename = "EvalIDs")]
    pub eval_ids: Vec<String>,
    /// Always 0.
    pub eval_create_index: u64,
    /// Where the node was forgotten.
    pub node_modify_index: u64,
    /// Readers that ask for this index see the change.
    pub index: u64,
}

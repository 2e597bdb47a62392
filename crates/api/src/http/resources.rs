//! What an allocation holds: cpu, memory, disk and ports.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AllocatedDevice, Text};

/// What an allocation holds, by task and in common.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "AllocatedResources")]
pub struct AllocatedResources<S: Text = String> {
    /// By task name.
    pub tasks: BTreeMap<S, AllocatedTask<S>>,
    /// In common.
    pub shared: AllocatedShared<S>,
}

/// What one task holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "AllocatedTask")]
pub struct AllocatedTask<S: Text = String> {
    /// Processor time.
    pub cpu: AllocatedCpu,
    /// Main memory.
    pub memory: AllocatedMemory,
    /// In the order in which it asks for them.
    pub devices: Vec<AllocatedDevice<S>>,
}

/// Processor time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedCpu {
    /// MHz.
    pub cpu_shares: u32,
    /// Ids of the cores that it has for itself alone.
    pub reserved_cores: Vec<u16>,
}

/// Main memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AllocatedMemory {
    /// MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: u32,
    /// MiB it may use when there is plenty; 0 for no more than its share, -1 for all that the node has.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: i64,
}

/// What the tasks of an allocation hold in common.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "AllocatedShared")]
pub struct AllocatedShared<S: Text = String> {
    /// MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: u32,
    /// At most one.
    pub networks: Vec<NetworkResource<S>>,
    /// All ports, in order of declaration.
    pub ports: Vec<AllocatedPort<S>>,
}

/// A network and its ports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "NetworkResource")]
pub struct NetworkResource<S: Text = String> {
    /// `host` or `none`.
    pub mode: S,
    /// Where its ports are reached.
    #[serde(rename = "IP")]
    pub ip: S,
    /// Ports that the scheduler picked.
    pub dynamic_ports: Vec<PortValue<S>>,
    /// Ports that the job names.
    pub reserved_ports: Vec<PortValue<S>>,
}

/// A port within its network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "PortValue")]
pub struct PortValue<S: Text = String> {
    /// Its name in the job.
    pub label: S,
    /// On the host.
    pub value: u16,
    /// Inside the task's network; 0 for the same.
    pub to: u16,
}

/// A port and where it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "AllocatedPort")]
pub struct AllocatedPort<S: Text = String> {
    /// Its name in the job.
    pub label: S,
    /// On the host.
    pub value: u16,
    /// Inside the task's network; 0 for the same.
    pub to: u16,
    /// The host's address.
    #[serde(rename = "HostIP")]
    pub host_ip: S,
}

/// Amounts in the older form that clients still read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TaskResources {
    /// MHz.
    #[serde(rename = "CPU")]
    pub cpu: u32,
    /// MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: u32,
    /// MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: u32,
}

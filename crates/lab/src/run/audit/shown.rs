//! What the public API shows, as far as an audit reads it. These types are its own: it shares nothing with what placed.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A node, of a list with resources.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Node {
    #[serde(rename = "ID")]
    pub id: String,
    pub name: String,
    pub datacenter: String,
    pub node_class: String,
    pub node_pool: String,
    pub attributes: Option<BTreeMap<String, String>>,
    pub meta: Option<BTreeMap<String, String>>,
    pub drivers: Option<BTreeMap<String, Driver>>,
    pub node_resources: Resources,
    pub reserved_resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Driver {
    pub detected: bool,
}

/// Of a node, or what of it is not for tasks.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Resources {
    pub cpu: Cpu,
    pub memory: Memory,
    pub disk: Disk,
    pub devices: Option<Vec<Device>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Cpu {
    /// MHz.
    pub cpu_shares: u64,
    pub reserved_cores: Option<Vec<u32>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    /// MiB.
    #[serde(rename = "MemoryMB")]
    pub mb: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Disk {
    /// MiB.
    #[serde(rename = "DiskMB")]
    pub mb: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Device {
    pub vendor: String,
    pub r#type: String,
    pub name: String,
    pub instances: Vec<Instance>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Instance {
    #[serde(rename = "ID")]
    pub id: String,
}

/// An allocation, of a list with resources.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Alloc {
    #[serde(rename = "ID")]
    pub id: String,
    pub namespace: String,
    #[serde(rename = "NodeID")]
    pub node_id: String,
    #[serde(rename = "JobID")]
    pub job_id: String,
    pub job_version: u64,
    pub task_group: String,
    pub desired_status: String,
    pub client_status: String,
    pub allocated_resources: Option<Allocated>,
}

impl Alloc {
    /// It may still run, so that it holds what it was given.
    pub fn holds(&self) -> bool {
        // What is preempted has promised its room to another already.
        self.desired_status != "evict" && matches!(&*self.client_status, "pending" | "running" | "unknown")
    }

    /// It is where its job wants it now.
    pub fn is_wanted(&self) -> bool {
        self.desired_status == "run" && self.holds()
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Allocated {
    pub tasks: BTreeMap<String, AllocatedTask>,
    pub shared: Shared,
}

impl Allocated {
    pub fn cpu_mhz(&self) -> u64 {
        self.tasks.values().map(|task| task.cpu.cpu_shares).sum()
    }

    pub fn memory_mb(&self) -> u64 {
        self.tasks.values().map(|task| task.memory.mb).sum()
    }

    pub fn disk_mb(&self) -> u64 {
        self.shared.disk_mb
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct AllocatedTask {
    pub cpu: Cpu,
    pub memory: Memory,
    pub devices: Option<Vec<AllocatedDevice>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct AllocatedDevice {
    pub vendor: String,
    pub r#type: String,
    pub name: String,
    #[serde(rename = "DeviceIDs")]
    pub ids: Vec<String>,
    /// Thousandths of each; whole ones unless said.
    pub milli_each: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Shared {
    /// MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: u64,
    #[serde(rename = "Ports")]
    pub ports: Option<Vec<Port>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Port {
    #[serde(rename = "Label")]
    pub label: String,
    #[serde(rename = "Value")]
    pub value: u16,
    #[serde(rename = "HostIP")]
    pub host_ip: String,
}

/// The kept versions of a job.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Versions {
    pub versions: Vec<Job>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Job {
    pub version: u64,
    pub datacenters: Option<Vec<String>>,
    pub node_pool: String,
    pub constraints: Option<Vec<Constraint>>,
    pub task_groups: Option<Vec<Group>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Group {
    pub name: String,
    pub constraints: Option<Vec<Constraint>>,
    pub tasks: Option<Vec<Task>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Task {
    pub driver: String,
    pub constraints: Option<Vec<Constraint>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Constraint {
    #[serde(rename = "LTarget")]
    pub left: String,
    #[serde(rename = "Operand")]
    pub operand: String,
    #[serde(rename = "RTarget")]
    pub right: String,
}

/// Which quota a namespace has.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Namespace {
    pub name: String,
    pub quota: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Quota {
    pub name: String,
    pub limits: Option<Vec<Limit>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Limit {
    pub region_limit: Option<RegionLimit>,
}

/// 0 is no limit, less than 0 is none of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RegionLimit {
    #[serde(rename = "CPU")]
    pub cpu_mhz: Option<i64>,
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<i64>,
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<i64>,
}

//! The types of the public API that an audit reads. They are its own, so that it shares no code with the scheduler that it checks.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A node, of a list with resources.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct AuditedNode {
    #[serde(rename = "ID")]
    pub id: String,
    pub name: String,
    pub datacenter: String,
    pub node_class: String,
    pub node_pool: String,
    pub attributes: Option<BTreeMap<String, String>>,
    pub meta: Option<BTreeMap<String, String>>,
    pub drivers: Option<BTreeMap<String, NodeDriver>>,
    pub node_resources: NodeResources,
    pub reserved_resources: NodeResources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NodeDriver {
    pub detected: bool,
}

/// Of a node, or what of it is not for tasks.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NodeResources {
    pub cpu: NodeCpu,
    pub memory: NodeMemory,
    pub disk: NodeDisk,
    pub devices: Option<Vec<NodeDevice>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NodeCpu {
    /// Processor capacity in MHz.
    pub cpu_shares: u64,
    pub reserved_cores: Option<Vec<u32>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeMemory {
    /// MiB.
    #[serde(rename = "MemoryMB")]
    pub mb: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeDisk {
    /// MiB.
    #[serde(rename = "DiskMB")]
    pub mb: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NodeDevice {
    pub vendor: String,
    pub r#type: String,
    pub name: String,
    pub instances: Vec<DeviceInstance>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeviceInstance {
    #[serde(rename = "ID")]
    pub id: String,
}

/// An allocation, of a list with resources.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct AuditedAlloc {
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
    pub allocated_resources: Option<AllocatedResources>,
}

impl AuditedAlloc {
    /// It may still run, so that it holds what it was given.
    pub fn holds(&self) -> bool {
        // The resources of what is preempted are promised to another already.
        self.desired_status != "evict" && matches!(&*self.client_status, "pending" | "running" | "unknown")
    }

    /// It is desired to run.
    pub fn is_wanted(&self) -> bool {
        self.desired_status == "run" && self.holds()
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct AllocatedResources {
    pub tasks: BTreeMap<String, AllocatedTask>,
    pub shared: AllocatedShared,
}

impl AllocatedResources {
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
    pub cpu: NodeCpu,
    pub memory: NodeMemory,
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
    /// Thousandths of each; 1000 unless given.
    pub milli_each: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AllocatedShared {
    /// MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: u64,
    #[serde(rename = "Ports")]
    pub ports: Option<Vec<AllocatedPort>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AllocatedPort {
    #[serde(rename = "Label")]
    pub label: String,
    #[serde(rename = "Value")]
    pub value: u16,
    #[serde(rename = "HostIP")]
    pub host_ip: String,
}

/// The retained versions of a job.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct JobVersions {
    pub versions: Vec<AuditedJob>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct AuditedJob {
    pub version: u64,
    pub datacenters: Option<Vec<String>>,
    pub node_pool: String,
    pub constraints: Option<Vec<Constraint>>,
    pub task_groups: Option<Vec<AuditedGroup>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct AuditedGroup {
    pub name: String,
    pub constraints: Option<Vec<Constraint>>,
    pub tasks: Option<Vec<AuditedTask>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct AuditedTask {
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
    pub limits: Option<Vec<QuotaLimit>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct QuotaLimit {
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

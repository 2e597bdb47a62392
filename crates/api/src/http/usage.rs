//! What tasks and machines use. Bytes, percent and MHz; `Measured` names the members that were.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an allocation uses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocResourceUsage {
    /// All its tasks together.
    pub resource_usage: ResourceUsage,
    /// Each task that runs, by name.
    pub tasks: BTreeMap<String, TaskResourceUsage>,
    /// When it was measured.
    pub timestamp: i64,
}

/// What a task uses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskResourceUsage {
    /// All its processes together.
    pub resource_usage: ResourceUsage,
    /// When it was measured.
    pub timestamp: i64,
}

/// Memory and cpu.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ResourceUsage {
    /// Memory.
    pub memory_stats: MemoryStats,
    /// Cpu.
    pub cpu_stats: CpuStats,
}

/// Memory in use, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct MemoryStats {
    /// The processes' own.
    #[serde(rename = "RSS")]
    pub rss: u64,
    /// Of files, kept by the kernel.
    pub cache: u64,
    /// Moved to disk.
    pub swap: u64,
    /// All that counts against the limit.
    pub usage: u64,
    /// The most that this has been.
    pub max_usage: u64,
    /// Which of these were measured, as Nomad's command line names them.
    pub measured: Vec<String>,
}

/// Cpu time in use over a short span.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct CpuStats {
    /// By the kernel: percent of one core.
    pub system_mode: f64,
    /// By programs: percent of one core.
    pub user_mode: f64,
    /// MHz.
    pub total_ticks: f64,
    /// How often the kernel held the task back.
    pub throttled_periods: u64,
    /// For how many nanoseconds it did.
    pub throttled_time: u64,
    /// Percent of one core.
    pub percent: f64,
    /// Which of these were measured, as Nomad's command line names them.
    pub measured: Vec<String>,
}

/// What a machine uses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostStats {
    /// Memory.
    pub memory: HostMemoryStats,
    /// Each core.
    #[serde(rename = "CPU")]
    pub cpu: Vec<HostCpuStats>,
    /// The disk with the agent's data.
    pub disk_stats: Vec<HostDiskStats>,
    /// That disk again.
    pub alloc_dir_stats: HostDiskStats,
    /// Seconds since the machine started.
    pub uptime: u64,
    /// MHz on all cores.
    #[serde(rename = "CPUTicksConsumed")]
    pub cpu_ticks_consumed: f64,
    /// When it was measured.
    pub timestamp: i64,
}

/// A machine's memory, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostMemoryStats {
    /// All of it.
    pub total: u64,
    /// What programs could have.
    pub available: u64,
    /// What they have.
    pub used: u64,
    /// What nobody uses for anything.
    pub free: u64,
}

/// How a core spent a short span, in percent of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostCpuStats {
    /// Its name, as `cpu0`.
    #[serde(rename = "CPU")]
    pub cpu: String,
    /// On programs.
    pub user: f64,
    /// On the kernel's own work.
    pub system: f64,
    /// On nothing.
    pub idle: f64,
}

/// A disk, in bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostDiskStats {
    /// What is mounted.
    pub device: String,
    /// Where it is mounted.
    pub mountpoint: String,
    /// How large it is.
    pub size: u64,
    /// How much is in use.
    pub used: u64,
    /// How much programs may still have.
    pub available: u64,
    /// In use, in percent of its size.
    pub used_percent: f64,
    /// Room for files' names in use, in percent.
    pub inodes_used_percent: f64,
}

//! Resource usage of tasks and machines, sampled at the time of the request.

/// What the tasks of an allocation use.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocUsage {
    /// Of tasks that run, in order of declaration.
    #[prost(message, repeated, tag = "1")]
    pub tasks: Vec<TaskUsage>,
    /// When it was measured: nanoseconds since the Unix epoch, by the node's clock.
    #[prost(uint64, tag = "2")]
    pub at_ns: u64,
}

/// What the allocations of a node use, of which any task runs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeAllocUsage {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    pub allocs: Vec<AllocUsageEntry>,
}

/// What one of several allocations uses.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocUsageEntry {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// What it uses.
    #[prost(message, required, tag = "2")]
    pub usage: AllocUsage,
}

/// What a task uses.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TaskUsage {
    /// The task's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// None when nothing could be measured.
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<CpuUsage>,
    /// None when nothing could be measured.
    #[prost(message, optional, tag = "3")]
    pub memory: Option<MemoryUsage>,
}

/// Cpu time used over a short span, in percent of one core.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct CpuUsage {
    /// By the programs themselves.
    #[prost(double, tag = "1")]
    pub user_percent: f64,
    /// By the kernel for them.
    #[prost(double, tag = "2")]
    pub system_percent: f64,
    /// MHz: the share of the node's cpu, in the unit in which jobs ask for it.
    #[prost(double, tag = "3")]
    pub mhz: f64,
    /// How often the kernel held it back since its start; none where nothing counts that.
    #[prost(uint64, optional, tag = "4")]
    pub throttled_periods: Option<u64>,
    /// Nanoseconds it was held back since its start; none where nothing counts that.
    #[prost(uint64, optional, tag = "5")]
    pub throttled_ns: Option<u64>,
}

/// Memory in bytes.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MemoryUsage {
    /// Of the processes' own.
    #[prost(uint64, tag = "1")]
    pub rss: u64,
    /// Of files, kept by the kernel; none where nothing counts that.
    #[prost(uint64, optional, tag = "2")]
    pub cache: Option<u64>,
    /// Moved to disk.
    #[prost(uint64, tag = "3")]
    pub swap: u64,
    /// All that counts against its limit; none where nothing counts that.
    #[prost(uint64, optional, tag = "4")]
    pub usage: Option<u64>,
    /// The most that this has been; none where nothing counts that.
    #[prost(uint64, optional, tag = "5")]
    pub usage_max: Option<u64>,
}

/// What a node's machine uses.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUsage {
    /// When it was measured: nanoseconds since the Unix epoch, by the node's clock.
    #[prost(uint64, tag = "1")]
    pub at_ns: u64,
    /// Seconds since the machine started.
    #[prost(uint64, tag = "2")]
    pub uptime_s: u64,
    /// Its memory.
    #[prost(message, required, tag = "3")]
    pub memory: NodeMemoryUsage,
    /// One for each core.
    #[prost(message, repeated, tag = "4")]
    pub cores: Vec<CoreUsage>,
    /// MHz in use on all cores.
    #[prost(double, tag = "5")]
    pub mhz: f64,
    /// The disk that holds the agent's data.
    #[prost(message, required, tag = "6")]
    pub disk: DiskUsage,
}

/// A machine's memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct NodeMemoryUsage {
    /// All of it.
    #[prost(uint64, tag = "1")]
    pub total: u64,
    /// What programs could have without swapping.
    #[prost(uint64, tag = "2")]
    pub available: u64,
    /// What nobody uses for anything.
    #[prost(uint64, tag = "3")]
    pub free: u64,
}

/// How one core spent a short span, in percent of it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CoreUsage {
    /// As `cpu0`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// On programs.
    #[prost(double, tag = "2")]
    pub user_percent: f64,
    /// On the kernel's own work.
    #[prost(double, tag = "3")]
    pub system_percent: f64,
    /// On nothing.
    #[prost(double, tag = "4")]
    pub idle_percent: f64,
}

/// A disk, in bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DiskUsage {
    /// What is mounted, as `/dev/sda1`.
    #[prost(string, tag = "1")]
    pub device: String,
    /// Where it is mounted.
    #[prost(string, tag = "2")]
    pub mountpoint: String,
    /// How large it is.
    #[prost(uint64, tag = "3")]
    pub size: u64,
    /// How much of it is in use.
    #[prost(uint64, tag = "4")]
    pub used: u64,
    /// How much of it programs may still have.
    #[prost(uint64, tag = "5")]
    pub available: u64,
    /// Inodes in use, in percent.
    #[prost(double, tag = "6")]
    pub inodes_used_percent: f64,
}

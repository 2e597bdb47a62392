//! A task: one process or container.

use std::{collections::BTreeMap, time::Duration};

use minicbor::{Decode, Encode};

use super::{
    Artifact, Identity, IgnoredSettings, JobType, Lifecycle, RestartPolicy, Scaling, Secret, Service,
    Template, VolumeMount, seconds,
};
use crate::{
    constraint::{Affinity, Constraint},
    device::DeviceAsk,
    resources::Resources,
    value::Value,
};

/// One process or container, and how its driver starts it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Task {
    /// Unique in its group.
    #[n(0)]
    pub name: String,
    /// The driver's name.
    #[n(1)]
    pub driver: String,
    /// What only the driver understands.
    #[n(2)]
    pub config: BTreeMap<String, Value>,
    /// Runs as this user; empty for the driver's default.
    #[n(3)]
    pub user: String,
    /// Environment; values may hold `${...}`.
    #[n(4)]
    pub env: BTreeMap<String, String>,
    /// In addition to the group's.
    #[n(5)]
    pub constraints: Vec<Constraint>,
    /// The resources that it is given.
    #[n(6)]
    pub resources: TaskResources,
    /// What happens when it ends by itself.
    #[n(7)]
    pub restart: RestartPolicy,
    /// The owner's own labels.
    #[n(8)]
    pub meta: BTreeMap<String, String>,
    /// Time between the kill signal and SIGKILL.
    #[n(9)]
    #[cbor(with = "crate::codec::duration")]
    pub kill_timeout: Duration,
    /// A signal's name, as SIGTERM; empty for the driver's default.
    #[n(10)]
    pub kill_signal: String,
    /// How its output is kept.
    #[n(11)]
    pub logs: LogConfig,
    /// When it ends, the group's other tasks are stopped.
    #[n(12)]
    pub leader: bool,
    /// Time between the request to end it and the kill signal.
    #[n(13)]
    #[cbor(with = "crate::codec::duration")]
    pub shutdown_delay: Duration,
    /// In addition to the group's.
    #[n(14)]
    pub affinities: Vec<Affinity>,
    /// When it runs; none for a main task.
    #[n(20)]
    pub lifecycle: Option<Lifecycle>,
    /// Downloaded before it starts.
    #[n(21)]
    pub artifacts: Vec<Artifact>,
    /// Rendered before it starts.
    #[n(22)]
    pub templates: Vec<Template>,
    /// Where it sees volumes of the group.
    #[n(23)]
    pub volume_mounts: Vec<VolumeMount>,
    /// The file that gets the payload of a dispatch, below the task's directory; empty for none.
    #[n(24)]
    pub dispatch_payload: String,
    /// The names under which others find it.
    #[n(25)]
    pub services: Vec<Service>,
    /// Tokens by which it can prove who it is.
    #[n(26)]
    pub identities: Vec<Identity>,
    /// Bounds of its resources.
    #[n(27)]
    pub scaling: Vec<Scaling>,
    /// `Vault`, `Consul`, `Actions`, `Schedule`, ...; `Secrets` of before they were given to tasks.
    #[n(28)]
    pub kept: IgnoredSettings,
    /// Variables whose items it is given when it starts; not in entries before version 4.
    #[n(29)]
    #[cbor(default)]
    pub secrets: Vec<Secret>,
}

/// Time between the kill signal and SIGKILL, unless the task says otherwise.
const KILL_TIMEOUT: Duration = seconds(5);

impl Task {
    /// A task with the defaults of job files.
    pub fn new(name: impl Into<String>, driver: impl Into<String>, job_type: JobType) -> Self {
        Self {
            name: name.into(),
            driver: driver.into(),
            config: BTreeMap::new(),
            user: String::new(),
            env: BTreeMap::new(),
            constraints: Vec::new(),
            resources: TaskResources::default(),
            restart: RestartPolicy::default_for(job_type),
            meta: BTreeMap::new(),
            kill_timeout: KILL_TIMEOUT,
            kill_signal: String::new(),
            logs: LogConfig::default(),
            leader: false,
            shutdown_delay: Duration::ZERO,
            affinities: Vec::new(),
            lifecycle: None,
            artifacts: Vec::new(),
            templates: Vec::new(),
            volume_mounts: Vec::new(),
            dispatch_payload: String::new(),
            services: Vec::new(),
            identities: Vec::new(),
            scaling: Vec::new(),
            kept: IgnoredSettings::new(),
            secrets: Vec::new(),
        }
    }
}

/// The `memory_max` of a task that may use all that its node has; -1 in job files.
pub const MEMORY_MAX_OF_NODE: u32 = u32::MAX;

/// Resources of one task.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct TaskResources {
    /// MHz; 100 when not given.
    #[n(0)]
    pub cpu_mhz: u32,
    /// MiB; 300 when not given.
    #[n(1)]
    pub memory_mb: u32,
    /// Processor cores for it alone, in place of `cpu_mhz`; 0 for none.
    #[n(2)]
    pub cores: u32,
    /// MiB that it may use when its node has them to spare; 0 for no more than `memory_mb`, [`MEMORY_MAX_OF_NODE`] for all
    /// that the node has.
    #[n(3)]
    pub memory_max_mb: u32,
    /// Devices of the node, as GPUs.
    #[n(4)]
    pub devices: Vec<DeviceAsk>,
    /// `NUMA`, `SecretsMB`, and what groups say today.
    #[n(20)]
    pub kept: IgnoredSettings,
}

impl TaskResources {
    /// What it takes of a node while it runs; whole cores are counted apart.
    pub fn room(&self) -> Resources {
        let cpu_mhz = if self.cores == 0 { self.cpu_mhz } else { 0 };
        Resources { cpu_mhz, memory_mb: self.memory_mb, disk_mb: 0 }
    }
}

impl Default for TaskResources {
    fn default() -> Self {
        Self {
            cpu_mhz: 100,
            memory_mb: 300,
            cores: 0,
            memory_max_mb: 0,
            devices: Vec::new(),
            kept: IgnoredSettings::new(),
        }
    }
}

/// How a task's standard output and error are kept: rotated files of bounded size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LogConfig {
    /// Files kept for each of the two; 10 when not given.
    #[n(0)]
    pub max_files: u32,
    /// MiB of one file; 10 when not given.
    #[n(1)]
    pub max_file_size_mb: u32,
    /// Store no output.
    #[n(2)]
    pub disabled: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { max_files: 10, max_file_size_mb: 10, disabled: false }
    }
}

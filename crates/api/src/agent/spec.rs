//! What an agent must know to run an allocation, and what a server must know to place one.

use std::collections::BTreeMap;

use super::{CheckSpec, IdentitySpec, SecretSpec, TemplateSpec};

/// A node as its agent describes it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeSpec {
    /// For users; the host's name by default.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The datacenter's name.
    #[prost(string, tag = "2")]
    pub datacenter: String,
    /// The node pool's name.
    #[prost(string, tag = "3")]
    pub node_pool: String,
    /// The operator's own class; may be empty.
    #[prost(string, tag = "4")]
    pub node_class: String,
    /// Fingerprints without their `attr.` prefix: `kernel.name` → `linux`, `driver.raw_exec` → `1`.
    #[prost(btree_map = "string, string", tag = "5")]
    pub attributes: BTreeMap<String, String>,
    /// The operator's own labels.
    #[prost(btree_map = "string, string", tag = "6")]
    pub meta: BTreeMap<String, String>,
    /// MHz, all of the machine.
    #[prost(uint32, tag = "7")]
    pub cpu_mhz: u32,
    /// MiB, all of the machine.
    #[prost(uint32, tag = "8")]
    pub memory_mb: u32,
    /// MiB free for allocations.
    #[prost(uint32, tag = "9")]
    pub disk_mb: u32,
    /// MHz that allocations may not have.
    #[prost(uint32, tag = "10")]
    pub reserved_cpu_mhz: u32,
    /// MiB that allocations may not have.
    #[prost(uint32, tag = "11")]
    pub reserved_memory_mb: u32,
    /// MiB that allocations may not have.
    #[prost(uint32, tag = "12")]
    pub reserved_disk_mb: u32,
    /// Host ports that allocations may not have.
    #[prost(uint32, repeated, tag = "13")]
    pub reserved_ports: Vec<u32>,
    /// The address on which allocations' ports are reached.
    #[prost(string, tag = "14")]
    pub host_ip: String,
    /// First port handed out to allocations that name none; 20000 when 0.
    #[prost(uint32, tag = "15")]
    pub dynamic_port_min: u32,
    /// Last of these ports; 32000 when 0.
    #[prost(uint32, tag = "16")]
    pub dynamic_port_max: u32,
    /// The agent's own version.
    #[prost(string, tag = "17")]
    pub version: String,
    /// By vendor, type and model.
    #[prost(message, repeated, tag = "18")]
    pub devices: Vec<DeviceSpec>,
    /// Ids of the processor cores that tasks may have for themselves alone.
    #[prost(uint32, repeated, tag = "19")]
    pub cores: Vec<u32>,
}

/// Devices of one model on a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeviceSpec {
    /// As `nvidia`.
    #[prost(string, tag = "1")]
    pub vendor: String,
    /// The type, as `gpu`.
    #[prost(string, tag = "2")]
    pub kind: String,
    /// As `A100`.
    #[prost(string, tag = "3")]
    pub model: String,
    /// Fingerprints that hold for each of them, as `memory` → `40 GiB`.
    #[prost(btree_map = "string, string", tag = "4")]
    pub attributes: BTreeMap<String, String>,
    /// Each of them.
    #[prost(message, repeated, tag = "5")]
    pub instances: Vec<DeviceInstanceSpec>,
}

/// One device.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeviceInstanceSpec {
    /// Unique among the node's devices.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Whether it must not be used.
    #[prost(bool, tag = "2")]
    pub unhealthy: bool,
}

/// What one task was given of its node's devices and cores.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TaskDevices {
    /// The task's name.
    #[prost(string, tag = "1")]
    pub task: String,
    /// In the order in which it asks for them.
    #[prost(message, repeated, tag = "2")]
    pub grants: Vec<DeviceGrantSpec>,
    /// Ids.
    #[prost(uint32, repeated, tag = "3")]
    pub cores: Vec<u32>,
}

/// Devices of one model that a task was given.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeviceGrantSpec {
    /// `vendor/type/model`.
    #[prost(string, tag = "1")]
    pub device: String,
    /// Their ids.
    #[prost(string, repeated, tag = "2")]
    pub ids: Vec<String>,
    /// What it has of each, in thousandths.
    #[prost(uint32, tag = "3")]
    pub milli_each: u32,
}

/// A job's group, as much of it as an agent needs. Shared by all allocations of a group and job version.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GroupSpec {
    /// The job's namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// The job's id.
    #[prost(string, tag = "2")]
    pub job_id: String,
    /// The job's name.
    #[prost(string, tag = "3")]
    pub job_name: String,
    /// `service`, `batch`, `system` or `sysbatch`.
    #[prost(string, tag = "4")]
    pub job_type: String,
    /// The region's name.
    #[prost(string, tag = "5")]
    pub region: String,
    /// The group's name.
    #[prost(string, tag = "6")]
    pub group: String,
    /// The tasks, in order of declaration.
    #[prost(message, repeated, tag = "7")]
    pub tasks: Vec<TaskSpec>,
    /// The job's labels, overlaid by the group's.
    #[prost(btree_map = "string, string", tag = "8")]
    pub meta: BTreeMap<String, String>,
    /// MiB of disk for task directories and logs.
    #[prost(uint32, tag = "9")]
    pub disk_mb: u32,
    /// Milliseconds waited before any kill signal of this group.
    #[prost(uint64, tag = "10")]
    pub shutdown_delay_ms: u64,
    /// What an allocation must show to count as healthy; absent where nobody asks.
    #[prost(message, optional, tag = "11")]
    pub health: Option<HealthSpec>,
    /// Its checks, in order of declaration.
    #[prost(message, repeated, tag = "12")]
    pub checks: Vec<CheckSpec>,
    /// Milliseconds after the first start of a task within which all of it must have ended; 0 for as long as it takes.
    #[prost(uint64, tag = "13")]
    pub max_run_ms: u64,
    /// Milliseconds after which its allocations are stopped without contact to a server; 0 for never.
    #[prost(uint64, tag = "15")]
    pub stop_after_silence_ms: u64,
    /// Absent where the group says nothing of it.
    #[prost(message, optional, tag = "16")]
    pub network: Option<NetworkSpec>,
    /// What a dispatch carries; empty where no task has a file for it.
    #[prost(bytes = "vec", tag = "40")]
    pub payload: Vec<u8>,
    /// What it needs of the node's volumes.
    #[prost(message, repeated, tag = "41")]
    pub volumes: Vec<VolumeSpec>,
    /// On the node of its predecessor it takes over what that kept in its directories.
    #[prost(bool, tag = "42")]
    pub sticky_disk: bool,
}

/// The network of a group's allocations.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NetworkSpec {
    /// `host`, `bridge` or `none`; empty for `host`.
    #[prost(string, tag = "1")]
    pub mode: String,
    /// The name that its containers see as their host's; empty for one of their own.
    #[prost(string, tag = "2")]
    pub hostname: String,
    /// Absent for the host's.
    #[prost(message, optional, tag = "3")]
    pub dns: Option<DnsSpec>,
}

/// How names are resolved in a network.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DnsSpec {
    /// Addresses; empty for the host's.
    #[prost(string, repeated, tag = "1")]
    pub servers: Vec<String>,
    /// Domains.
    #[prost(string, repeated, tag = "2")]
    pub searches: Vec<String>,
    /// As resolv.conf(5) has them.
    #[prost(string, repeated, tag = "3")]
    pub options: Vec<String>,
}

/// What is downloaded before a task starts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ArtifactSpec {
    /// An address, or a path of the node; may hold `${...}`.
    #[prost(string, tag = "1")]
    pub source: String,
    /// Where it is put; may hold `${...}`.
    #[prost(string, tag = "2")]
    pub destination: String,
    /// `any`, `file` or `dir`: what it is.
    #[prost(string, tag = "3")]
    pub mode: String,
    /// As `checksum`; values may hold `${...}`.
    #[prost(btree_map = "string, string", tag = "4")]
    pub options: BTreeMap<String, String>,
    /// Lines of the request's head; values may hold `${...}`.
    #[prost(btree_map = "string, string", tag = "5")]
    pub headers: BTreeMap<String, String>,
    /// Take any certificate.
    #[prost(bool, tag = "6")]
    pub insecure: bool,
    /// Give the files to the task's user.
    #[prost(bool, tag = "7")]
    pub chown: bool,
}

/// A volume of the node, as a group knows it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VolumeSpec {
    /// As the group's tasks call it.
    #[prost(string, tag = "1")]
    pub name: String,
    /// As the node calls it.
    #[prost(string, tag = "2")]
    pub source: String,
    /// Nobody may write.
    #[prost(bool, tag = "3")]
    pub read_only: bool,
}

/// Where a task sees one of its group's volumes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VolumeMountSpec {
    /// The volume's name in the group.
    #[prost(string, tag = "1")]
    pub volume: String,
    /// A path within the task.
    #[prost(string, tag = "2")]
    pub destination: String,
    /// The task may not write.
    #[prost(bool, tag = "3")]
    pub read_only: bool,
    /// `private`, `host-to-task` or `bidirectional`: who sees mounts made below it.
    #[prost(string, tag = "4")]
    pub propagation: String,
}

/// What an allocation must show to count as healthy.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HealthSpec {
    /// Milliseconds for which all its tasks run without a break.
    #[prost(uint64, tag = "1")]
    pub min_healthy_ms: u64,
    /// Milliseconds from its start, after which it counts as unhealthy.
    #[prost(uint64, tag = "2")]
    pub deadline_ms: u64,
    /// The checks of its services must pass, too.
    #[prost(bool, tag = "3")]
    pub checks: bool,
}

/// One task of a group.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TaskSpec {
    /// Unique in its group; names its directory.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The driver's name.
    #[prost(string, tag = "2")]
    pub driver: String,
    /// The driver's settings as a JSON object; strings in it may hold `${...}`.
    #[prost(string, tag = "3")]
    pub config_json: String,
    /// Empty for the driver's default.
    #[prost(string, tag = "4")]
    pub user: String,
    /// Values may hold `${...}`.
    #[prost(btree_map = "string, string", tag = "5")]
    pub env: BTreeMap<String, String>,
    /// MHz.
    #[prost(uint32, tag = "6")]
    pub cpu_mhz: u32,
    /// MiB.
    #[prost(uint32, tag = "7")]
    pub memory_mb: u32,
    /// When it ends by itself.
    #[prost(message, required, tag = "8")]
    pub restart: RestartSpec,
    /// The task's own labels; overlay the group's.
    #[prost(btree_map = "string, string", tag = "9")]
    pub meta: BTreeMap<String, String>,
    /// Milliseconds between the kill signal and SIGKILL.
    #[prost(uint64, tag = "10")]
    pub kill_timeout_ms: u64,
    /// As `SIGTERM`; empty for the driver's default.
    #[prost(string, tag = "11")]
    pub kill_signal: String,
    /// How output is kept.
    #[prost(message, required, tag = "12")]
    pub logs: LogSpec,
    /// When it ends, the other tasks are stopped.
    #[prost(bool, tag = "13")]
    pub leader: bool,
    /// Milliseconds waited before this task's kill signal.
    #[prost(uint64, tag = "14")]
    pub shutdown_delay_ms: u64,
    /// MiB that it may use when the node has them to spare; 0 for no more than `memory_mb`.
    #[prost(uint32, tag = "15")]
    pub memory_max_mb: u32,
    /// The file that gets what a dispatch carries, below the task's `local` directory; empty for none.
    #[prost(string, tag = "40")]
    pub payload_file: String,
    /// What is downloaded before it starts.
    #[prost(message, repeated, tag = "42")]
    pub artifacts: Vec<ArtifactSpec>,
    /// Whom it can say it is.
    #[prost(message, repeated, tag = "43")]
    pub identities: Vec<IdentitySpec>,
    /// What of variables it is given.
    #[prost(message, repeated, tag = "44")]
    pub secrets: Vec<SecretSpec>,
    /// Where it sees volumes of its group.
    #[prost(message, repeated, tag = "41")]
    pub volume_mounts: Vec<VolumeMountSpec>,
    /// What is rendered before it starts, and again when what it shows changes.
    #[prost(message, repeated, tag = "45")]
    pub templates: Vec<TemplateSpec>,
    /// When it runs, beside the others of its group.
    #[prost(enumeration = "HookSpec", tag = "16")]
    pub hook: i32,
    /// Of one with a hook: it lives on beside the main tasks, and ends after them.
    #[prost(bool, tag = "17")]
    pub sidecar: bool,
}

/// When a task runs within the life of its allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum HookSpec {
    /// It is one of the main tasks.
    Main = 0,
    /// Before the main tasks, which wait for its success, or as a sidecar for its start.
    Prestart = 1,
    /// Once the main tasks run.
    Poststart = 2,
    /// Once all other tasks have ended, however they did.
    Poststop = 3,
}

/// What the agent does once restarts are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum RestartModeSpec {
    /// The allocation has failed.
    Fail = 0,
    /// Wait for the interval to end, then try again.
    Delay = 1,
}

/// How often a task is started again on its node.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RestartSpec {
    /// Restarts allowed in one interval.
    #[prost(uint32, tag = "1")]
    pub attempts: u32,
    /// Milliseconds.
    #[prost(uint64, tag = "2")]
    pub interval_ms: u64,
    /// Milliseconds before each restart; up to a quarter more at random.
    #[prost(uint64, tag = "3")]
    pub delay_ms: u64,
    /// Once attempts are used up.
    #[prost(enumeration = "RestartModeSpec", tag = "4")]
    pub mode: i32,
}

/// How a task's output is kept.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LogSpec {
    /// Files kept for each of stdout and stderr.
    #[prost(uint32, tag = "1")]
    pub max_files: u32,
    /// MiB a file.
    #[prost(uint32, tag = "2")]
    pub max_file_size_mb: u32,
    /// Keep nothing.
    #[prost(bool, tag = "3")]
    pub disabled: bool,
}

/// A port of an allocation, as decided by the scheduler.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PortBinding {
    /// Its name in the job.
    #[prost(string, tag = "1")]
    pub label: String,
    /// The port on the host.
    #[prost(uint32, tag = "2")]
    pub host_port: u32,
    /// The port inside the task's network; 0 for the same as on the host.
    #[prost(uint32, tag = "3")]
    pub to: u32,
    /// The network of the node that it is taken from; empty for its first.
    #[prost(string, tag = "4")]
    pub host_network: String,
    /// With that: the node's address in it, when the allocation was placed; empty where the node had none.
    #[prost(string, tag = "5")]
    pub host_ip: String,
}

impl PortBinding {
    /// Where the port is reached, on a node whose first network has the address `first`.
    ///
    /// # Errors
    /// When the node is not in the network that the port is taken from.
    pub fn address<'a>(&'a self, first: &'a str) -> Result<&'a str, String> {
        match (&*self.host_network, &*self.host_ip) {
            ("", _) => Ok(first),
            (network, "") => {
                let label = &self.label;
                Err(format!("take the port {label:?}: this node has no host network {network:?} any more"))
            }
            (_, address) => Ok(address),
        }
    }
}

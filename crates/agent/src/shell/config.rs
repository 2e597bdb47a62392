//! The configuration of an agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::LogFeed;

use super::credentials::AgentTls;
use super::setup::SetupMoment;
use crate::artifacts::ArtifactConfig;
use crate::devices::Device;
use crate::drivers::DriverSwitches;
use crate::host_networks::HostNetworks;
use crate::images::ImagesConfig;
use crate::lifecycle::KILL_TIMEOUT_MS_MAX;
use crate::network::NetworkConfig;
use crate::user_ids::UserIdsConfig;
use crate::volumes::{HostVolumes, MountDir};

/// An agent's settings.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Holds all that the agent keeps; used by one agent at a time.
    pub data_dir: PathBuf,
    /// Addresses of servers, as `host:port`; any of them will do.
    pub servers: Vec<String>,
    /// Where the agent's certificate comes from; none to speak without encryption.
    pub tls: Option<AgentTls>,
    /// The node's name; empty for the host's.
    pub node_name: String,
    /// The datacenter's name.
    pub datacenter: String,
    /// The node pool's name.
    pub node_pool: String,
    /// The operator's own class; may be empty.
    pub node_class: String,
    /// The operator's own labels.
    pub meta: BTreeMap<String, String>,
    /// The address on which allocations' ports are reached.
    pub host_ip: String,
    /// MHz; 0 to find out.
    pub cpu_mhz: u32,
    /// MiB; 0 to find out.
    pub memory_mb: u32,
    /// MHz that allocations may not have.
    pub reserved_cpu_mhz: u32,
    /// MiB that allocations may not have.
    pub reserved_memory_mb: u32,
    /// MiB of disk that allocations may not have.
    pub reserved_disk_mb: u32,
    /// Host ports that allocations may not have.
    pub reserved_ports: Vec<u16>,
    /// Devices of the node besides the GPUs that the agent finds itself.
    pub devices: Vec<Device>,
    /// Where it looks for these: the directory that has `proc` and `dev`.
    pub root: PathBuf,
    /// First and last port handed out to allocations that name none.
    pub dynamic_ports: (u16, u16),
    /// The drivers that are turned on.
    pub drivers: DriverSwitches,
    /// The OCI runtime's path; empty to look for crun, then runc.
    pub container_runtime: String,
    /// What the root of an exec task has of the host; empty for what most need.
    pub exec_paths: Vec<PathBuf>,
    /// Whether jobs may give containers the host's network, where they reach all that listens on the host.
    pub host_network: bool,
    /// The ranges of user ids for containers.
    pub user_ids: UserIdsConfig,
    /// Capabilities that jobs may add to containers; see [`crate::drivers::extra_capability`].
    pub extra_capabilities: Vec<&'static str>,
    /// Networks of allocations.
    pub network: NetworkConfig,
    /// Networks from which jobs may take their ports, besides the one that `host_ip` is in.
    pub host_networks: HostNetworks,
    /// Directories that tasks may use, by the names that jobs know.
    pub host_volumes: HostVolumes,
    /// Directories of which containers may mount what they name.
    pub mount_dirs: Vec<MountDir>,
    /// Where artifacts may come from, and how large they may be.
    pub artifacts: ArtifactConfig,
    /// Where images of containers come from.
    pub images: ImagesConfig,
    /// The command that becomes a keeper when a directory is appended: this binary and its subcommand.
    pub keeper_command: Vec<String>,
    /// The longest that a task gets between its kill signal and SIGKILL.
    pub kill_timeout_max: Duration,
    /// How long task events are batched before they are sent to the servers.
    pub update_delay: Duration,
    /// The log of this process, which is streamed to clients through the servers.
    pub log_feed: LogFeed,
    /// Called at each step of preparing and cleaning up allocations: for tests that end the agent there.
    pub on_setup: Option<fn(SetupMoment)>,
}

impl AgentConfig {
    /// Settings of a node that runs mock tasks and containers, and dials `servers`.
    pub fn new(data_dir: impl Into<PathBuf>, servers: Vec<String>, keeper_command: Vec<String>) -> Self {
        Self {
            data_dir: data_dir.into(),
            servers,
            tls: None,
            node_name: String::new(),
            datacenter: "dc1".into(),
            node_pool: "default".into(),
            node_class: String::new(),
            meta: BTreeMap::new(),
            host_ip: "127.0.0.1".into(),
            cpu_mhz: 0,
            memory_mb: 0,
            reserved_cpu_mhz: 0,
            reserved_memory_mb: 0,
            reserved_disk_mb: 0,
            reserved_ports: Vec::new(),
            devices: Vec::new(),
            root: "/".into(),
            dynamic_ports: (20_000, 32_000),
            drivers: DriverSwitches { mock_driver: true, raw_exec: false, containers: true, exec: true },
            container_runtime: String::new(),
            exec_paths: Vec::new(),
            host_network: false,
            user_ids: UserIdsConfig::default(),
            network: NetworkConfig::default(),
            host_networks: HostNetworks::new(),
            host_volumes: HostVolumes::new(),
            extra_capabilities: Vec::new(),
            mount_dirs: Vec::new(),
            artifacts: ArtifactConfig::default(),
            images: ImagesConfig::default(),
            keeper_command,
            kill_timeout_max: Duration::from_millis(KILL_TIMEOUT_MS_MAX.into()),
            update_delay: Duration::from_secs(1),
            log_feed: LogFeed::default(),
            on_setup: None,
        }
    }
}

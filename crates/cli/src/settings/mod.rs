//! Settings of `berth dev`, `berth server` and `berth agent`: the same names as flags, in the environment and in files.
//!
//! A flag overrides the environment, that the file, and that the default.

mod args;
mod audit;
mod declared_devices;
mod file;
mod load;
mod paths;
mod role;
mod table;
mod tls;
mod value;
mod volumes;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use berth_agent::{
    ArtifactConfig, DrainOnShutdown, HostNetworks, ImagesConfig, NetworkConfig, UserIdsConfig,
    devices::Device,
    volumes::{HostVolumes, MountDir},
};
use berth_api::agent::JoinCode;
use berth_server::{AddressLimit, AgentLimits, HostState, LOG_VERSIONS, http::Limits, shared::MetricsNames};
use tracing::level_filters::LevelFilter;

use audit::AuditSettings;

use crate::daemon::LogFormat;

pub use args::{AgentArgs, DevArgs, ServerArgs};
pub use role::Role;
#[cfg(test)]
pub use table::{Setting, of as settings_of};
pub use tls::{TLS_DIR, TlsSettings};

/// The default share of all connections and waits that one address may have.
const ADDRESS_PART: usize = 16;
/// One token may hold this part of all waits.
const TOKEN_PART: usize = 3;

/// What a long-running command was given, every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The command it is for.
    pub role: Role,
    /// Directory of state, logs and task directories; none for a temporary one.
    pub data_dir: Option<PathBuf>,
    /// Where the HTTP API listens.
    pub http_addr: SocketAddr,
    /// Where a server listens for agents.
    pub agent_addr: SocketAddr,
    /// Where a server listens for other servers; none for next to where it listens for agents.
    pub server_addr: Option<SocketAddr>,
    /// Where other servers reach this one, as HOST:PORT, if that is elsewhere.
    pub server_advertise: Option<String>,
    /// Servers to join, as HOST:PORT.
    pub join: Vec<String>,
    /// The token with which an agent joins.
    pub join_code: Option<JoinCode>,
    /// Servers that found a cluster together.
    pub bootstrap_expect: u32,
    /// Whether callers may do only what their tokens say.
    pub acl: bool,
    /// Who signs tokens of tasks, as an address; none for nobody that others know.
    pub oidc_issuer: Option<String>,
    /// Under which names a server's measurements are read.
    pub metrics_names: MetricsNames,
    /// What clients of a server's HTTP API may cost.
    pub limits: Limits,
    /// What its agents may cost.
    pub agent_limits: AgentLimits,
    /// How a server records who did what.
    pub audit: AuditSettings,
    /// Where certificates and keys are; none for `tls` in the data directory, if that is there.
    pub tls_dir: Option<PathBuf>,
    /// How old a root key gets.
    pub root_key_rotation: Duration,
    /// Certificates from elsewhere.
    pub tls: TlsSettings,
    /// The newest version of entries of the log to know.
    pub log_version: u8,
    /// Where an agent finds servers, as HOST:PORT.
    pub servers: Vec<String>,
    /// What is logged.
    pub log_level: LevelFilter,
    /// How a line of it is written.
    pub log_format: LogFormat,
    /// Empty for the host's.
    pub server_name: String,
    /// The region's name.
    pub region: String,
    /// The datacenter's name.
    pub datacenter: String,
    /// Threads that place allocations; 0 for a number that suits the machine.
    pub planners: u32,
    /// How planners keep up with what nodes hold.
    pub host_state: HostState,
    /// How long what planners have cached is good for.
    pub host_state_refresh: Duration,
    /// The node that an agent is.
    pub node: NodeSettings,
    /// Simulated nodes to add.
    pub sim_nodes: u32,
    /// All settings by name, as they were given, to be shown to people.
    pub shown: Vec<(String, String)>,
}

/// Settings of an agent and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSettings {
    /// Empty for the host's.
    pub name: String,
    /// The node pool's name.
    pub pool: String,
    /// The operator's own class; may be empty.
    pub class: String,
    /// The operator's own labels.
    pub meta: BTreeMap<String, String>,
    /// Where the ports of allocations are reached.
    pub host_ip: IpAddr,
    /// MHz; 0 to find out.
    pub total_cpu_mhz: u32,
    /// MiB; 0 to find out.
    pub total_memory_mb: u32,
    /// MHz that allocations may not have.
    pub reserved_cpu_mhz: u32,
    /// MiB that allocations may not have.
    pub reserved_memory_mb: u32,
    /// MiB that allocations may not have.
    pub reserved_disk_mb: u32,
    /// Ports that allocations may not have.
    pub reserved_ports: Vec<u16>,
    /// The longest that a task gets between its kill signal and SIGKILL.
    pub kill_timeout_max: Duration,
    /// What the node has of devices, besides the GPUs that the agent finds itself.
    pub devices: Vec<Device>,
    /// Whether jobs may run commands on the bare host.
    pub raw_exec: bool,
    /// Whether jobs may run containers.
    pub containers: bool,
    /// Whether jobs may run commands of the host in containers.
    pub exec: bool,
    /// What these have of the host; empty for what most need.
    pub exec_paths: Vec<PathBuf>,
    /// Whether jobs may run tasks that only pretend to run.
    pub mock_driver: bool,
    /// Empty to look for one.
    pub container_runtime: String,
    /// Whether jobs may give containers the host's network.
    pub host_network: bool,
    /// Users of containers.
    pub user_ids: UserIdsConfig,
    /// What jobs may add to the rights of containers.
    pub extra_capabilities: Vec<&'static str>,
    /// Networks of allocations.
    pub network: NetworkConfig,
    /// Networks that jobs may take ports from, by the names that they know.
    pub host_networks: HostNetworks,
    /// Directories that tasks may use, by the names that jobs know.
    pub host_volumes: HostVolumes,
    /// Directories of which containers may mount what they name.
    pub mount_dirs: Vec<MountDir>,
    /// Where artifacts may come from, and how large they may be.
    pub artifacts: ArtifactConfig,
    /// Where images of containers come from, and which stay.
    pub images: ImagesConfig,
    /// How the node is emptied before its agent stops; none for not at all.
    pub drain_on_shutdown: Option<DrainOnShutdown>,
}

impl Settings {
    /// Nothing set, not even defaults: those are in the [`table`].
    fn blank(role: Role) -> Self {
        let unbound = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            role,
            data_dir: None,
            http_addr: unbound,
            agent_addr: unbound,
            server_addr: None,
            server_advertise: None,
            join: Vec::new(),
            join_code: None,
            bootstrap_expect: 1,
            acl: false,
            root_key_rotation: Duration::ZERO,
            oidc_issuer: None,
            metrics_names: MetricsNames::default(),
            limits: Limits::default(),
            agent_limits: AgentLimits::default(),
            audit: AuditSettings::default(),
            tls_dir: None,
            tls: TlsSettings::default(),
            log_version: *LOG_VERSIONS.end(),
            servers: Vec::new(),
            log_level: LevelFilter::INFO,
            log_format: LogFormat::default(),
            server_name: String::new(),
            region: String::new(),
            datacenter: String::new(),
            planners: 0,
            host_state: HostState::default(),
            host_state_refresh: Duration::ZERO,
            node: NodeSettings::blank(),
            sim_nodes: 0,
            shown: Vec::new(),
        }
    }

    /// So many connections to the HTTP API, half of them of this machine, and a sixteenth of an address.
    fn set_http_connections(&mut self, count: usize) {
        self.limits.connections_max = count;
        self.limits.connections_share =
            AddressLimit { per_address_max: count.div_ceil(ADDRESS_PART), loopback_max: count.div_ceil(2) };
    }

    /// So many connections of agents, and three quarters of them of an address.
    fn set_agent_connections(&mut self, count: usize) {
        self.agent_limits.connections_max = count;
        self.agent_limits.connections_share = AgentLimits::share(count);
    }

    /// So many requests that wait, half of them of this machine, a sixteenth of an address, and a third with one token. A
    /// quarter of the connections is left to those who want an
    /// answer at once.
    fn set_waits(&mut self, count: usize) {
        let connections = self.limits.connections_max;
        let count = count.min((connections - connections / 4).max(1));
        self.limits.waiting_max = count;
        self.limits.waiting_share =
            AddressLimit { per_address_max: count.div_ceil(ADDRESS_PART), loopback_max: count.div_ceil(2) };
        self.limits.waiting_of_token_max = count.div_ceil(TOKEN_PART);
    }
}

impl NodeSettings {
    fn blank() -> Self {
        Self {
            name: String::new(),
            pool: String::new(),
            class: String::new(),
            meta: BTreeMap::new(),
            host_ip: IpAddr::from(Ipv4Addr::LOCALHOST),
            total_cpu_mhz: 0,
            total_memory_mb: 0,
            reserved_cpu_mhz: 0,
            reserved_memory_mb: 0,
            reserved_disk_mb: 0,
            reserved_ports: Vec::new(),
            kill_timeout_max: Duration::ZERO,
            devices: Vec::new(),
            raw_exec: false,
            containers: false,
            exec: false,
            exec_paths: Vec::new(),
            mock_driver: false,
            container_runtime: String::new(),
            host_network: false,
            user_ids: UserIdsConfig::default(),
            network: NetworkConfig::default(),
            host_networks: HostNetworks::new(),
            host_volumes: HostVolumes::new(),
            extra_capabilities: Vec::new(),
            mount_dirs: Vec::new(),
            artifacts: ArtifactConfig::default(),
            images: ImagesConfig::default(),
            drain_on_shutdown: None,
        }
    }
}

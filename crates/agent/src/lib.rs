//! The agent of a node: pure [`lifecycle`] decisions, drivers that know how to run a task, keepers that outlive the
//! agent, and the shell that ties them to a server.

// What tests share with those of other programs names this crate as they do.
#[cfg(test)]
extern crate self as berth_agent;

mod alloc_dir;
mod artifacts;
mod backoff;
mod cgroups;
pub mod devices;
mod dirs;
mod disk;
pub mod drivers;
mod failure;
mod files;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
mod host_networks;
mod images;
pub mod keeper;
pub mod lifecycle;
mod locked_file;
mod logs;
mod mountinfo;
mod namespaces;
mod network;
pub mod paths;
mod pool;
mod proc;
mod program;
#[cfg(test)]
mod races;
mod regular_file;
mod resolve;
mod secrets;
mod shell;
mod signals;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../tests/common/disk.rs"]
mod test_disk;
#[cfg(test)]
#[path = "../tests/common/header.rs"]
mod test_header;
mod user_ids;
mod users;
pub mod volumes;

pub use artifacts::ArtifactConfig;
pub use backoff::Backoff;
pub use failure::Failure;
pub use host_networks::{HostNetwork, HostNetworks};
pub use images::{ImageLimits, ImagesConfig, RegistryConfig, check_registry};
pub use namespaces::unshare;
pub use network::NetworkConfig;
pub use secrets::{NO_SECRETS, Secrets};
pub use shell::{
    Agent, AgentConfig, AgentTls, DrainOnShutdown, Host, Servers, SetupMoment, ShutdownMode, joined_dir,
    never_prepared, setup_steps, starting_max,
};
pub use user_ids::UserIdsConfig;

/// The target of log events that name what this host lacks, which are the same at each start.
pub const HOST_LOG_TARGET: &str = "berth_agent::host";

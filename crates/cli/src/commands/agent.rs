//! `berth agent`: runs the agent that makes this machine a node.

use std::{collections::BTreeSet, path::Path};

use berth_agent::{Agent, AgentConfig, NetworkConfig, ShutdownMode, drivers::DriverSwitches};
use clap::{Args, Subcommand};
use tokio::sync::oneshot;

use super::{
    keeper,
    unit::{Daemon, InstallUnitArgs},
};
use crate::{
    daemon::{self, StopSignal},
    failure::{Exit, Failure},
    settings::{AgentArgs, Settings},
};

/// An agent to run, or how to run one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AgentCommand {
    #[command(flatten)]
    settings: AgentArgs,
    #[command(subcommand)]
    verb: Option<AgentSubcommand>,
}

/// What can be done besides running an agent.
#[derive(Debug, Subcommand)]
enum AgentSubcommand {
    /// Print a systemd unit that runs an agent
    InstallUnit(InstallUnitArgs),
}

impl AgentCommand {
    pub fn run(&self) -> Result<(), Failure> {
        match &self.verb {
            Some(AgentSubcommand::InstallUnit(install)) => install.run(Daemon::Agent),
            None => {
                let settings = self.settings.load()?;
                settings.node.check_paths()?;
                run(&settings)
            }
        }
    }
}

/// Runs an agent until it gets a signal to stop. Its tasks run on, and the next agent takes them up, unless its node is to be
/// drained first; a second signal ends that wait.
fn run(settings: &Settings) -> Result<(), Failure> {
    daemon::run(settings, async |log_feed| {
        daemon::raise_open_files();
        let mut stop = StopSignal::listen()?;
        let data_dir = daemon::data_dir(settings)?;
        let config = AgentConfig { log_feed, ..config(settings, data_dir, settings.servers.clone(), &[])? };
        let mode = settings.node.drain_on_shutdown.map_or(ShutdownMode::LeaveTasks, ShutdownMode::Drain);
        let (send_stop, stop_requested) = oneshot::channel();
        let stopped_twice = async move {
            stop.wait().await;
            let _ = send_stop.send(());
            stop.wait().await;
        };
        let agent = Agent::run(config, async move { drop(stop_requested.await) }, mode);
        tokio::select! {
            ended = agent => ended.map_err(failure),
            () = stopped_twice => Ok(()),
        }
    })
}

/// The agent's share of the settings.
pub(super) fn config(
    settings: &Settings,
    data_dir: &Path,
    servers: Vec<String>,
    own_ports: &[u16],
) -> Result<AgentConfig, Failure> {
    let node = &settings.node;
    node.network.check().map_err(|error| {
        Failure::new(Exit::Usage, error.to_string()).help("see --bridge-subnet and --bridge-subnet-ipv6")
    })?;
    // Those of this process, and those of servers, which may be on this host.
    let ports = own_ports.iter().copied().chain(servers.iter().filter_map(|server| port_of(server)));
    let own_ports: Vec<u16> = ports.collect::<BTreeSet<u16>>().into_iter().collect();
    Ok(AgentConfig {
        tls: settings.agent_tls(data_dir)?,
        node_name: node.name.clone(),
        datacenter: settings.datacenter.clone(),
        node_pool: node.pool.clone(),
        node_class: node.class.clone(),
        meta: node.meta.clone(),
        host_ip: node.host_ip.to_string(),
        cpu_mhz: node.total_cpu_mhz,
        memory_mb: node.total_memory_mb,
        reserved_cpu_mhz: node.reserved_cpu_mhz,
        reserved_memory_mb: node.reserved_memory_mb,
        reserved_disk_mb: node.reserved_disk_mb,
        reserved_ports: node.reserved_ports.clone(),
        kill_timeout_max: node.kill_timeout_max,
        devices: node.devices.clone(),
        drivers: DriverSwitches {
            mock_driver: node.mock_driver,
            raw_exec: node.raw_exec,
            containers: node.containers,
            exec: node.exec,
        },
        container_runtime: node.container_runtime.clone(),
        exec_paths: node.exec_paths.clone(),
        host_network: node.host_network,
        user_ids: node.user_ids,
        extra_capabilities: node.extra_capabilities.clone(),
        network: NetworkConfig { own_ports, ..node.network.clone() },
        host_networks: node.host_networks.clone(),
        host_volumes: node.host_volumes.clone(),
        mount_dirs: node.mount_dirs.clone(),
        artifacts: node.artifacts.clone(),
        images: node.images.clone(),
        ..AgentConfig::new(data_dir.join("agent"), servers, keeper::command()?)
    })
}

fn port_of(server: &str) -> Option<u16> {
    server.rsplit_once(':')?.1.parse().ok()
}

/// What stopped the agent.
pub(super) fn failure(error: berth_agent::Failure) -> Failure {
    Failure::new(Exit::Failed, format!("the agent stopped: {error}"))
}

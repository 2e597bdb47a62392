//! What an agent sets up when it starts for all allocations of its node: networks, ids of users, containers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::geteuid;

use super::AgentConfig;
use crate::HOST_LOG_TARGET;
use crate::drivers::ContainerConfig;
use crate::network::Networks;
use crate::user_ids::UserIds;
use crate::volumes::MountDir;

/// A firewall that is loaded again takes all rules away.
const RULES_CHECKED_EVERY: Duration = Duration::from_secs(10);

/// The node's networks for allocations, or why it has none, which is logged once.
pub(super) fn networks(config: &AgentConfig, data_dir: &Path) -> Result<Arc<Networks>, String> {
    if !config.network.on {
        return Err("the agent was started with --bridge=false".to_owned());
    }
    let opened = Networks::open(&config.network, data_dir, &config.host_ip);
    opened.map(Arc::new).map_err(|failure| {
        tracing::warn!(
            target: HOST_LOG_TARGET,
            %failure,
            "containers have no way out and no UDP ports here, and groups with a network of mode \"bridge\" cannot run"
        );
        failure.to_string()
    })
}

/// Ids for users of containers, or why there are none, which is logged once.
pub(super) fn user_ids(config: &AgentConfig, data_dir: &Path) -> Result<UserIds, String> {
    UserIds::open(&config.user_ids, data_dir, &config.keeper_command).map_err(|failure| {
        let can_have = geteuid().is_root() && (config.drivers.containers || config.drivers.exec);
        if can_have {
            tracing::warn!(target: HOST_LOG_TARGET, %failure, "root of a container is root of this node here");
        }
        failure.to_string()
    })
}

/// Looks from time to time whether the rules are still there.
pub(super) async fn guard_rules(networks: Option<Arc<Networks>>) {
    let Some(networks) = networks else { return };
    loop {
        tokio::time::sleep(RULES_CHECKED_EVERY).await;
        let networks = networks.clone();
        let _ = tokio::task::spawn_blocking(move || networks.check_rules()).await;
    }
}

/// What an operator says of containers, with the directories that they may mount as these are now.
pub(super) fn containers(config: &AgentConfig) -> ContainerConfig {
    let (host_ip, host_network) = (config.host_ip.clone(), config.host_network);
    let exec_paths = config.exec_paths.clone();
    let mount_dirs = config.mount_dirs.iter().filter_map(MountDir::find).collect();
    ContainerConfig {
        runtime: config.container_runtime.clone(),
        host_ip,
        host_network,
        host_users: config.user_ids.host_allowed,
        extra_capabilities: config.extra_capabilities.clone(),
        exec_paths,
        mount_dirs,
    }
}

//! Simulated nodes: the agent's own life cycle and session, its mock driver played with timers, many of them on one
//! connection. A server cannot tell them from real ones.

mod fleet;
mod identity;
mod node;
mod timers;

use std::{future::Future, io, time::Duration};

use tokio::task::JoinSet;

use fleet::Fleet;

/// Waited before a lost connection is dialed again.
const RETRY: Duration = Duration::from_millis(500);

/// Which nodes to simulate.
#[derive(Debug, Clone)]
pub struct NodesConfig {
    /// Where agents connect, as `host:port`.
    pub server: String,
    /// How many nodes.
    pub count: u32,
    /// On how many connections.
    pub connections: u32,
    /// Makes ids, secrets and jitter: the same seed is the same nodes.
    pub seed: u64,
    /// MHz of each node.
    pub cpu_mhz: u32,
    /// MiB of each node.
    pub memory_mb: u32,
    /// MiB of each node.
    pub disk_mb: u32,
    /// The nodes' datacenter.
    pub datacenter: String,
    /// Their pool.
    pub node_pool: String,
}

impl NodesConfig {
    /// Nodes of a common shape: 4 GHz, 8 GiB, 100 GiB.
    pub fn new(server: impl Into<String>, count: u32) -> Self {
        Self {
            server: server.into(),
            count,
            connections: 4,
            seed: 1,
            cpu_mhz: 4_000,
            memory_mb: 8_192,
            disk_mb: 102_400,
            datacenter: "dc1".to_owned(),
            node_pool: "default".to_owned(),
        }
    }
}

/// Simulates nodes until `shutdown` completes.
///
/// # Errors
/// When the runtime's clock or sockets cannot be used; a server that is not there is dialed again.
pub async fn run(config: NodesConfig, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    let connections = config.connections.clamp(1, config.count.max(1));
    let mut fleets = JoinSet::new();
    for connection in 0..connections {
        let numbers = (connection..config.count).step_by(connections as usize);
        let mut fleet = Fleet::new(config.clone(), numbers);
        fleets.spawn(async move {
            loop {
                if let Err(error) = fleet.connect_and_live().await {
                    tracing::warn!(%error, "simulated nodes lost their connection");
                }
                tokio::time::sleep(RETRY).await;
            }
        });
    }
    shutdown.await;
    fleets.shutdown().await;
    Ok(())
}

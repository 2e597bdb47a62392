//! Revokes nodes, one after the other, while their agents are connected.

use std::time::{Duration, Instant};

use berth_tls::TlsFiles;
use bytes::Bytes;
use hyper::Method;
use serde_json::Value;

use crate::{
    nodes::{NodesConfig, SimulatedNodes},
    run::{Run, RunError, cluster::Cluster, http::Connection},
};

/// Agents that come from one address, as if it were a host's: a server takes only so many from each.
const PER_ADDRESS: u32 = 100;
/// Between two polls of what is still connected.
const POLL_EVERY: Duration = Duration::from_millis(1);
/// After so long whatever is still connected stays so.
const CUT_MAX: Duration = Duration::from_secs(15);

/// What became of the connections of nodes that were revoked.
#[derive(Debug, Default)]
pub(super) struct RevokedNodes {
    /// Nodes that were revoked.
    pub nodes: u32,
    /// From the request that revokes a node until its agent has seen the end of its session, for those that have.
    pub times_s: Vec<f64>,
    /// Sessions that are open in the end: those of nodes that nobody has revoked are to be.
    pub left_open: u32,
}

/// Connects twice as many, and revokes every other one.
pub(super) async fn cut_off(run: &Run<'_>, cluster: &Cluster, nodes: u32) -> Result<RevokedNodes, RunError> {
    let agents = 2 * nodes;
    let config = NodesConfig {
        connections: agents,
        per_address: PER_ADDRESS,
        tls: cluster.nodes_tls().map(|dir| TlsFiles::in_dir(dir, "agent")),
        seed: run.seed,
        ..NodesConfig::new(cluster.agents(), agents)
    };
    run.progress.print(&format!("{agents} agents connect, and every other node is revoked"));
    let simulated = SimulatedNodes::start(config).map_err(|error| RunError::Incomplete(error.to_string()))?;
    cluster.until_nodes_are_ready(agents).await?;
    let mut connection = Connection::open(&cluster.target).await?;
    let (listed, _) = connection.get::<Vec<Value>>("/v1/nodes").await?;
    let ids = listed.iter().filter_map(|node| node["ID"].as_str()).step_by(2);
    let mut cut_off = RevokedNodes::default();
    for id in ids {
        let open = simulated.shared_connections().are_open();
        let started_at = Instant::now();
        connection.write(Method::PUT, &format!("/v1/node/{id}/revoke"), Bytes::new()).await?;
        cut_off.nodes += 1;
        while simulated.shared_connections().are_open() >= open && started_at.elapsed() < CUT_MAX {
            tokio::time::sleep(POLL_EVERY).await;
        }
        if simulated.shared_connections().are_open() < open {
            cut_off.times_s.push(started_at.elapsed().as_secs_f64());
        }
    }
    cut_off.times_s.sort_unstable_by(f64::total_cmp);
    cut_off.left_open = simulated.shared_connections().are_open();
    Ok(cut_off)
}

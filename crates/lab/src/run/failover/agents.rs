//! The nodes: they live in this process, on threads of their own, so that what they have sent, started and ended is counted
//! where it happens.

use berth_tls::TlsFiles;
use tokio::runtime::{Builder, Runtime};

use super::load;
use crate::{
    nodes::{NodesConfig, SharedConnections, SimNodeShape, SimNodeShapes, SimulatedNodes, WeightedShape},
    run::{Run, RunError, cluster::Cluster},
};

/// Threads of all nodes; the servers' processors are the same ones.
const THREADS: usize = 2;
/// Connections of nodes where they need none of their own: some for each server.
const CONNECTIONS: u32 = 12;
/// Agents that come from one address, as if it were a network's.
const PER_ADDRESS: u32 = 100;

/// Nodes that live until this is dropped.
pub(super) struct Agents {
    simulated: SimulatedNodes,
    connections: u32,
    /// Ends after the nodes, and waits for nothing.
    runtime: Option<Runtime>,
}

impl Agents {
    /// Starts all nodes, which dial the servers of the cluster. The same ones in every run, so that a history is theirs.
    pub fn start(run: &Run<'_>, cluster: &Cluster) -> Result<Self, RunError> {
        let nodes = run.params.count_u32("nodes");
        let (connections, per_address) = match run.params.count_u32("tls-connections") {
            0 => (CONNECTIONS.min(nodes), 0),
            separate => (separate, PER_ADDRESS),
        };
        let shape = shape(run.params.count_u32("active-per-node"));
        let config = NodesConfig {
            servers: cluster.members().iter().map(|member| member.agents.clone()).collect(),
            connections,
            per_address,
            tls: cluster.nodes_tls().map(|dir| TlsFiles::in_dir(dir, "agent")),
            seed: run.options.seed,
            shapes: SimNodeShapes::Drawn(vec![WeightedShape { shape, weight: 1 }]),
            ..NodesConfig::new("", nodes)
        };
        let failed = |source| RunError::Io { doing: "start the nodes".to_owned(), source };
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let simulated = {
            let _inside = runtime.enter();
            SimulatedNodes::start(config).map_err(|error| RunError::Incomplete(error.to_string()))?
        };
        Ok(Self { simulated, connections, runtime: Some(runtime) })
    }

    /// Counts of their sessions, traffic and tasks.
    pub fn shared_connections(&self) -> &SharedConnections {
        self.simulated.shared_connections()
    }

    /// Connections that all of them have.
    pub fn connections(&self) -> u32 {
        self.connections
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Room for so many allocations at a time, and for one of a probe.
fn shape(active: u32) -> SimNodeShape {
    let [cpu_mhz, memory_mb, disk_mb] = load::node_resources(active);
    SimNodeShape { cpu_mhz, memory_mb, disk_mb, ..SimNodeShape::default() }
}

//! The nodes in groups by what happens to them: they live in this process, on threads of their own.

use std::ops::Range;

use tokio::runtime::{Builder, Runtime};

use crate::{
    nodes::{
        Behaviour, NodesConfig, SharedConnections, SimNodeShape, SimNodeShapes, SimulatedNodes, WeightedShape,
    },
    run::{Run, RunError, cluster::Cluster, failover},
};

/// Threads of all nodes; the servers' processors are the same ones.
const THREADS: usize = 2;
/// Connections of the nodes that stay: some for each server.
const CONNECTIONS: u32 = 12;
/// The most connections of those that vanish: each has one of its own, up to that many.
const VANISHING_CONNECTIONS_MAX: u32 = 8_000;
/// Agents that come from one address, as if it were a network's.
const PER_ADDRESS: u32 = 100;
/// The nodes' datacenter, and that of those that vanish and come back.
const HERE: &str = "dc1";
pub(super) const RETURNING: &str = "returning";

/// How many nodes there are, and what becomes of which.
#[derive(Debug, Clone, Copy)]
pub(super) struct LivenessSize {
    pub nodes: u32,
    pub active_per_node: u32,
    silent: u32,
    vanishing: u32,
}

/// The numbers of some nodes.
pub(super) type NodeNumbers = Range<u32>;

impl LivenessSize {
    /// The groups by the run's parameters.
    pub fn of(run: &Run<'_>) -> Self {
        let nodes = run.params.count_u32("nodes");
        Self {
            nodes,
            active_per_node: run.params.count_u32("active-per-node"),
            silent: run.params.count_u32("silent"),
            vanishing: (nodes * run.params.count_u32("vanish")).div_ceil(100),
        }
    }

    /// Those that fall silent first.
    pub fn silent(&self) -> NodeNumbers {
        0..self.silent
    }

    /// Those that fall silent just before another leader is elected.
    pub fn silent_in_election(&self) -> NodeNumbers {
        self.silent..2 * self.silent
    }

    /// Those that vanish and come back.
    pub fn vanishing(&self) -> NodeNumbers {
        2 * self.silent..2 * self.silent + self.vanishing
    }

    /// Nodes without faults.
    pub fn well(&self) -> NodeNumbers {
        (2 * self.silent + self.vanishing)..self.nodes
    }

    /// Allocations of all nodes.
    pub fn active(&self) -> u32 {
        self.nodes * self.active_per_node
    }
}

/// Nodes that live until this is dropped.
pub(super) struct NodeGroups {
    silent: SimulatedNodes,
    silent_in_election: SimulatedNodes,
    vanishing: SimulatedNodes,
    well: SimulatedNodes,
    /// Ends after the nodes, and waits for nothing.
    runtime: Option<Runtime>,
}

impl NodeGroups {
    /// Starts all nodes, which dial the servers of the cluster.
    pub fn start(run: &Run<'_>, cluster: &Cluster, size: LivenessSize) -> Result<Self, RunError> {
        // What ran on the nodes that vanish fits on those that stay.
        let [cpu_mhz, memory_mb, disk_mb] = failover::node_resources(2 * size.active_per_node);
        let shape = SimNodeShape { cpu_mhz, memory_mb, disk_mb, ..SimNodeShape::default() };
        let config = |numbers: NodeNumbers, datacenter: &str| NodesConfig {
            servers: cluster.members().iter().map(|member| member.agents.clone()).collect(),
            first: numbers.start,
            connections: CONNECTIONS.min(numbers.len() as u32),
            seed: run.options.seed,
            shapes: SimNodeShapes::Drawn(vec![WeightedShape { shape: shape.clone(), weight: 1 }]),
            datacenter: datacenter.to_owned(),
            ..NodesConfig::new("", numbers.len() as u32)
        };
        let vanishing = config(size.vanishing(), RETURNING);
        let vanishing = NodesConfig {
            connections: vanishing.count.min(VANISHING_CONNECTIONS_MAX),
            per_address: PER_ADDRESS,
            ..vanishing
        };
        let well = NodesConfig { behaviour: behaviour(run)?, ..config(size.well(), HERE) };
        let failed = |source| RunError::Io { doing: "start the nodes".to_owned(), source };
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let inside = runtime.enter();
        let start =
            |config| SimulatedNodes::start(config).map_err(|error| RunError::Incomplete(error.to_string()));
        let (silent, silent_in_election) =
            (start(config(size.silent(), HERE))?, start(config(size.silent_in_election(), HERE))?);
        let (vanishing, well) = (start(vanishing)?, start(well)?);
        drop(inside);
        Ok(Self { silent, silent_in_election, vanishing, well, runtime: Some(runtime) })
    }

    /// The connections of the nodes that fall silent first.
    pub fn silent(&self) -> &SharedConnections {
        self.silent.shared_connections()
    }

    /// The connections of the nodes that fall silent just before an election.
    pub fn silent_in_election(&self) -> &SharedConnections {
        self.silent_in_election.shared_connections()
    }

    /// The connections of the nodes that vanish and come back.
    pub fn vanishing(&self) -> &SharedConnections {
        self.vanishing.shared_connections()
    }

    /// How many tasks run on the nodes that are neither silent for good nor away.
    pub fn running(&self) -> u64 {
        [self.vanishing(), self.well.shared_connections()].into_iter().map(running).sum()
    }
}

/// How many tasks run on some nodes.
pub(super) fn running(shared_connections: &SharedConnections) -> u64 {
    let (started, ended) = shared_connections.tasks();
    started.saturating_sub(ended)
}

fn behaviour(run: &Run<'_>) -> Result<Behaviour, RunError> {
    let Some(outages) = run.params.text("others-silent") else { return Ok(Behaviour::default()) };
    match outages.parse() {
        Ok(silence) => Ok(Behaviour { silence, ..Behaviour::default() }),
        Err(error) => Err(run.params.refuse("others-silent", format!("{error}")).into()),
    }
}

impl Drop for NodeGroups {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_of_one_kind() {
        let size = LivenessSize { nodes: 90, active_per_node: 5, silent: 3, vanishing: 9 };
        let kinds = [size.silent(), size.silent_in_election(), size.vanishing(), size.well()];
        assert_eq!(kinds.clone().into_iter().flatten().collect::<Vec<_>>(), (0..90).collect::<Vec<_>>());
        assert_eq!(kinds.map(|numbers| numbers.len()), [3, 3, 9, 75]);
    }
}

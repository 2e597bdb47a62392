//! Which nodes to simulate.

use std::time::Duration;

use berth_api::agent::Batching;
use berth_tls::TlsFiles;

use super::{Behaviour, Journal, SimNodeShapes};

/// Nodes to simulate, and how they behave.
#[derive(Debug, Clone)]
pub struct NodesConfig {
    /// Where the servers take agents, each as `host:port`: connections are dealt to them in turn, and one whose server is lost
    /// dials another.
    pub servers: Vec<String>,
    /// The number of the first node: several processes can share one numbering, and so one cluster.
    pub first: u32,
    /// Number of nodes.
    pub count: u32,
    /// Number of connections. Nodes whose connection breaks by itself have one each besides.
    pub connections: u32,
    /// So many of these come from one address of loopback, so that they are of many hosts; all from the usual one when 0.
    pub per_address: u32,
    /// The certificate that all nodes share, and the authorities that they believe; none without TLS.
    pub tls: Option<TlsFiles>,
    /// Makes ids, secrets, shapes and behaviour: the same seed is the same nodes.
    pub seed: u64,
    /// How large they are.
    pub shapes: SimNodeShapes,
    /// What they do of themselves.
    pub behaviour: Behaviour,
    /// So many neighbours share a value of `meta.rack`; none have it when 0.
    pub rack_size: u32,
    /// The nodes are dealt to so many classes, `c0` and so on; they have none when 0.
    pub classes: u32,
    /// Their datacenter.
    pub datacenter: String,
    /// Their pool.
    pub node_pool: String,
    /// How long task events wait for company on their way to the servers.
    pub update_delay: Duration,
    /// What makes their updates few.
    pub batching: Batching,
    /// Gets a line for each start and each end of a task.
    pub journal: Option<Journal>,
}

impl NodesConfig {
    /// Nodes of the common shape, without faults.
    pub fn new(server: impl Into<String>, count: u32) -> Self {
        Self {
            servers: vec![server.into()],
            first: 0,
            count,
            connections: 4,
            per_address: 0,
            tls: None,
            seed: 1,
            shapes: SimNodeShapes::default(),
            behaviour: Behaviour::default(),
            rack_size: 40,
            classes: 0,
            datacenter: "dc1".to_owned(),
            node_pool: "default".to_owned(),
            update_delay: Duration::from_secs(1),
            batching: Batching::default(),
            journal: None,
        }
    }
}

//! A node: one machine that runs allocations.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::{device::NodeDevice, ids::NodeId, resources::Resources};

/// The pool that every node is in, besides its own.
pub const NODE_POOL_ALL: &str = "all";
/// The pool of nodes and jobs that name none.
pub const NODE_POOL_DEFAULT: &str = "default";
/// First port handed out to allocations that name none, where the node does not say.
pub const DYNAMIC_PORT_MIN: u16 = 20_000;
/// Last of these ports.
pub const DYNAMIC_PORT_MAX: u16 = 32_000;

/// Whether a node's agent is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum NodeStatus {
    /// Registered, and its agent has not yet confirmed what runs on it.
    #[n(0)]
    Initializing,
    /// Its agent has confirmed what runs on it.
    #[n(1)]
    Ready,
    /// Its agent has been silent for too long.
    #[n(2)]
    Down,
}

impl NodeStatus {
    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Ready => "ready",
            Self::Down => "down",
        }
    }
}

/// A node as its agent described it when it registered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Node {
    /// Made by the agent at its first start.
    #[n(0)]
    pub id: NodeId,
    /// For people.
    #[n(1)]
    pub name: String,
    /// The datacenter's name.
    #[n(2)]
    pub datacenter: String,
    /// The node pool's name.
    #[n(3)]
    pub pool: String,
    /// The operator's own class; may be empty.
    #[n(4)]
    pub class: String,
    /// Fingerprints, without their `attr.` prefix.
    #[n(5)]
    pub attributes: BTreeMap<String, String>,
    /// The operator's own labels.
    #[n(6)]
    pub meta: BTreeMap<String, String>,
    /// All of the machine.
    #[n(7)]
    pub total: Resources,
    /// What allocations may not have.
    #[n(8)]
    pub reserved: Resources,
    /// Ports that allocations may not have, ascending.
    #[n(9)]
    pub reserved_ports: Vec<u16>,
    /// Where allocations' ports are reached.
    #[n(10)]
    pub host_ip: String,
    /// First and last of the ports handed out to allocations that name none.
    #[n(11)]
    pub dynamic_ports: (u16, u16),
    /// Hash of the secret with which the node's agent opens its sessions.
    #[n(12)]
    #[cbor(with = "minicbor::bytes")]
    pub secret_hash: Vec<u8>,
    /// By vendor, kind and model.
    #[n(13)]
    pub devices: Vec<NodeDevice>,
    /// Ids of the processor cores that tasks may have for themselves alone, ascending.
    #[n(14)]
    pub cores: Vec<u16>,
}

impl Node {
    /// What allocations may have.
    pub fn capacity(&self) -> Resources {
        self.total.minus(self.reserved)
    }

    /// MHz that come with each core that a task has for itself alone.
    pub fn core_mhz(&self) -> u32 {
        self.capacity().cpu_mhz.checked_div(u32::try_from(self.cores.len()).unwrap_or(u32::MAX)).unwrap_or(0)
    }
}

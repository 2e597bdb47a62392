//! A node: one machine that runs allocations.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::{
    alloc::Placement,
    device::{DevicesHeld, NodeDevice, WHOLE_MILLI},
    ids::{Index, NodeId},
    resources::Resources,
    time::Timestamp,
};

/// The pool that every node is in, besides its own.
pub const NODE_POOL_ALL: &str = "all";
/// The pool of nodes and jobs that name none.
pub const NODE_POOL_DEFAULT: &str = "default";
/// First port handed out to allocations that name none, where the node does not say.
pub const DYNAMIC_PORT_MIN: u16 = 20_000;
/// Last of these ports.
pub const DYNAMIC_PORT_MAX: u16 = 32_000;
/// Nodes that a cluster may have, those included that are down and not collected yet.
pub const NODES_MAX: usize = 200_000;

/// Attributes that name a node's volumes begin so.
pub const HOST_VOLUME_PREFIX: &str = "host_volume.";
/// The value of such an attribute where nobody may write.
pub const HOST_VOLUME_READ_ONLY: &str = "read-only";

/// Attributes that give a node's address in a network of its operator's begin so.
pub const HOST_NETWORK_PREFIX: &str = "host_network.";
/// The name of the network that every node has, besides the empty one.
pub const HOST_NETWORK_DEFAULT: &str = "default";

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
    /// The same, and allocations on it wait for its return.
    #[n(3)]
    Disconnected,
}

impl NodeStatus {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Initializing, Self::Ready, Self::Down, Self::Disconnected];

    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Ready => "ready",
            Self::Down => "down",
            Self::Disconnected => "disconnected",
        }
    }

    /// Whether its agent has been silent for too long: nobody knows what runs there.
    pub fn is_silent(self) -> bool {
        matches!(self, Self::Down | Self::Disconnected)
    }
}

/// What lives on a node moves away.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Drain {
    /// When the drain began.
    #[n(0)]
    pub started_at: Timestamp,
    /// What is still there then is stopped, whether it has another place or not; none for as long as it takes.
    #[n(1)]
    pub deadline: Option<Timestamp>,
    /// Work that runs on every node stays.
    #[n(2)]
    pub ignore_system: bool,
    /// How long it was to take, as it was asked for: nanoseconds, 0 for as long as it takes, less for at once.
    #[n(3)]
    pub requested_ns: i64,
}

impl Drain {
    /// Whether all that is left is to be stopped.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// What became of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum DrainStatus {
    /// It goes on.
    #[n(0)]
    Draining,
    /// Nothing is left.
    #[n(1)]
    Complete,
    /// An operator has ended it.
    #[n(2)]
    Canceled,
}

impl DrainStatus {
    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Complete => "complete",
            Self::Canceled => "canceled",
        }
    }
}

/// The last drain of a node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LastDrain {
    /// As it goes on; none once it is over.
    #[n(0)]
    pub drain: Option<Drain>,
    /// When it began.
    #[n(1)]
    pub started_at: Timestamp,
    /// When it was last changed.
    #[n(2)]
    pub updated_at: Timestamp,
    /// What became of it.
    #[n(3)]
    pub status: DrainStatus,
    /// What the operator has to say of it.
    #[n(4)]
    pub meta: BTreeMap<String, String>,
}

/// How many events of a node are kept, the newest ones.
pub const NODE_EVENTS_KEPT: usize = 10;

/// What an event of a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum NodeEventKind {
    /// Its agent introduced it.
    #[n(0)]
    Registered,
    /// Its agent was silent for too long, and it was declared down.
    #[n(1)]
    Down,
    /// The same, and allocations wait for its return.
    #[n(2)]
    Disconnected,
    /// Its agent has come again, and has confirmed what runs on it.
    #[n(3)]
    Returned,
    /// It became eligible for new work.
    #[n(4)]
    Eligible,
    /// It became ineligible for new work.
    #[n(5)]
    Ineligible,
    /// A drain began.
    #[n(6)]
    DrainBegun,
    /// The drain goes on in another way.
    #[n(7)]
    DrainChanged,
    /// Nothing was left to drain.
    #[n(8)]
    DrainCompleted,
    /// An operator has ended the drain.
    #[n(9)]
    DrainCanceled,
}

impl NodeEventKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Registered,
        Self::Down,
        Self::Disconnected,
        Self::Returned,
        Self::Eligible,
        Self::Ineligible,
        Self::DrainBegun,
        Self::DrainChanged,
        Self::DrainCompleted,
        Self::DrainCanceled,
    ];

    /// The message that users read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Down => "down: its agent was not heard for too long",
            Self::Disconnected => "disconnected: its agent was not heard for too long",
            Self::Returned => "ready again",
            Self::Eligible => "eligible for new work",
            Self::Ineligible => "ineligible for new work",
            Self::DrainBegun => "drain begun",
            Self::DrainChanged => "drain changed",
            Self::DrainCompleted => "drain completed",
            Self::DrainCanceled => "drain canceled",
        }
    }

    /// The part of the cluster that it is about, in the words of Nomad's clients.
    pub fn subsystem(self) -> &'static str {
        match self {
            Self::Registered | Self::Eligible | Self::Ineligible => "Cluster",
            Self::Down | Self::Disconnected | Self::Returned => "Heartbeat",
            Self::DrainBegun | Self::DrainChanged | Self::DrainCompleted | Self::DrainCanceled => "Drain",
        }
    }
}

/// An event of a node: a change of its status, its eligibility or its drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct NodeEvent {
    /// Kind of the event.
    #[n(0)]
    pub kind: NodeEventKind,
    /// Time of the entry that caused it.
    #[n(1)]
    pub at: Timestamp,
    /// Where in the order of changes.
    #[n(2)]
    pub index: Index,
}

/// A node as its agent described it when it registered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Node {
    /// Made by the agent at its first start.
    #[n(0)]
    pub id: NodeId,
    /// A name to read; it need not be unique.
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
    /// The node's address in the network that a port is taken from; none where it is not in it.
    pub fn address_in(&self, host_network: &str) -> Option<&str> {
        match host_network {
            "" | HOST_NETWORK_DEFAULT => Some(&self.host_ip),
            name => self.attributes.get(&format!("{HOST_NETWORK_PREFIX}{name}")).map(String::as_str),
        }
    }

    /// A plain node of datacenter `dc1` and the default pool, of which allocations may have all.
    pub fn new(id: NodeId, name: &str, total: Resources) -> Self {
        Self {
            id,
            name: name.to_owned(),
            datacenter: "dc1".to_owned(),
            pool: NODE_POOL_DEFAULT.to_owned(),
            class: String::new(),
            attributes: BTreeMap::new(),
            meta: BTreeMap::new(),
            total,
            reserved: Resources::ZERO,
            reserved_ports: Vec::new(),
            host_ip: String::new(),
            dynamic_ports: (DYNAMIC_PORT_MIN, DYNAMIC_PORT_MAX),
            secret_hash: Vec::new(),
            devices: Vec::new(),
            cores: Vec::new(),
        }
    }

    /// What allocations may have.
    pub fn capacity(&self) -> Resources {
        self.total.minus(self.reserved)
    }

    /// The first of the devices and cores that a placement was given which is not there, is sick, or has too little left
    /// beside what others hold.
    pub fn lacks_of(&self, placement: &Placement, held_by_others: &DevicesHeld) -> Option<String> {
        let mut held = held_by_others.clone();
        held.add(&DevicesHeld::of(&placement.devices, &placement.cores));
        let instances =
            placement.devices.iter().flat_map(|grant| grant.instances.iter().map(move |id| (grant, id)));
        let mut lacking = instances.filter(|(grant, id)| {
            let device = self.devices.iter().find(|device| device.to_string() == grant.device);
            let is_there = device.is_some_and(|device| {
                device.instances.iter().any(|instance| instance.id == **id && instance.healthy)
            });
            !is_there || held.milli_of(id) > WHOLE_MILLI
        });
        let core = |core: &&u16| held.cores.get(core) != Some(&1) || self.cores.binary_search(core).is_err();
        lacking.next().map(|(grant, id)| format!("device {} {id}", grant.device)).or_else(|| {
            let core = placement.cores.iter().find(core)?;
            Some(format!("core {core}"))
        })
    }

    /// MHz that come with each core that a task has for itself alone.
    pub fn core_mhz(&self) -> u32 {
        self.capacity().cpu_mhz.checked_div(u32::try_from(self.cores.len()).unwrap_or(u32::MAX)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::{DeviceGrant, DeviceInstance},
        ids::AllocId,
    };

    fn placement(id: &str, milli_each: u16, cores: &[u16]) -> Placement {
        let grant = DeviceGrant { device: "nvidia/gpu/A100".into(), instances: vec![id.into()], milli_each };
        Placement {
            id: AllocId(1),
            node: NodeId(1),
            group: 0,
            name_index: 0,
            ports: vec![],
            after: vec![],
            previous: None,
            reschedules: vec![],
            devices: vec![grant],
            cores: cores.to_vec(),
            canary: false,
            job_version: None,
        }
    }

    #[test]
    fn what_is_held_sick_or_not_there_is_lacking() {
        let instance = |id: &str, healthy| DeviceInstance { id: id.into(), healthy };
        let gpus = NodeDevice {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            model: "A100".into(),
            instances: vec![instance("g0", true), instance("g1", false)],
            ..NodeDevice::default()
        };
        let node =
            Node { devices: vec![gpus], cores: vec![2, 3], ..Node::new(NodeId(1), "n1", Resources::ZERO) };
        let others = placement("g0", 400, &[3]);
        let others = DevicesHeld::of(&others.devices, &others.cores);
        let lacks = |id, milli, cores: &[u16]| node.lacks_of(&placement(id, milli, cores), &others);
        assert_eq!(lacks("g0", 600, &[2]), None);
        assert_eq!(lacks("g0", 601, &[2]).as_deref(), Some("device nvidia/gpu/A100 g0"));
        assert_eq!(lacks("g0", 600, &[3]).as_deref(), Some("core 3"));
        assert_eq!(lacks("g0", 600, &[4]).as_deref(), Some("core 4"));
        assert_eq!(lacks("g1", 1, &[]).as_deref(), Some("device nvidia/gpu/A100 g1"));
        assert_eq!(lacks("g7", 1, &[]).as_deref(), Some("device nvidia/gpu/A100 g7"));
    }
}

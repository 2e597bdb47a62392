//! What stands in the way of one more allocation of a group on one node.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use berth_model::{
    constraint::{Constraint, Operator},
    device::DevicesHeld,
    job::Group,
    node::{Node, NodeStatus},
    resources::{Dimension, Resources},
    store::NodeSlot,
};

use super::{PlannedCluster, device_shortage};
use crate::{
    filters::{Filters, Objection},
    property::{Property, resolve},
};

/// One thing in the way. With only one on a node, doing away with it places an allocation there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The node takes nothing new.
    NotReady(&'static str),
    /// A filter turns the node away.
    Filtered(Objection),
    /// Less is free than asked for.
    Short { what: ScarceResource, requested: u32, free: u32 },
    /// A port that the job names is taken.
    Port(u16),
    /// Other allocations of the job are in the way.
    Distinct(String),
}

/// What a node can have too little of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScarceResource {
    /// MHz or MiB.
    Room(Dimension),
    /// Whole devices of a name.
    Devices(String),
    /// Thousandths of one device of a name.
    Share(String),
    /// Cores for itself alone.
    Cores,
}

impl fmt::Display for ScarceResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Room(dimension) => dimension.fmt(f),
            Self::Devices(name) => f.write_str(name),
            Self::Share(name) => write!(f, "share of {name}"),
            Self::Cores => f.write_str("cores"),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady(why) => write!(f, "the node is {why}"),
            Self::Filtered(objection) => f.write_str(&objection.reason),
            Self::Short { what, requested, free } => write!(f, "{what}: {requested} asked for, {free} free"),
            Self::Port(port) => write!(f, "port {port} is taken"),
            Self::Distinct(constraint) => f.write_str(constraint),
        }
    }
}

/// A group, ready to be looked at on every node.
pub(super) struct GroupFit<'a> {
    pub planned_cluster: &'a PlannedCluster<'a>,
    group: &'a Group,
    filters: Filters,
    distinct: Vec<DistinctLimit>,
}

/// What a distinct constraint leaves open.
struct DistinctLimit {
    text: String,
    /// The property that must differ; none for distinct hosts.
    property: Option<Property>,
    hosts: HashSet<NodeSlot>,
    counts: HashMap<String, u32>,
    most: u32,
}

impl<'a> GroupFit<'a> {
    pub fn at(planned_cluster: &'a PlannedCluster<'a>, position: u16) -> Self {
        let group = &planned_cluster.job.groups[usize::from(position)];
        let own = group.constraints.iter().chain(group.tasks.iter().flat_map(|task| &task.constraints));
        let of_job = planned_cluster.job.constraints.iter().map(|constraint| (constraint, None));
        let all = of_job.chain(own.map(|constraint| (constraint, Some(position))));
        let distinct = all
            .filter_map(|(constraint, group)| DistinctLimit::of(planned_cluster, constraint, group))
            .collect();
        Self { planned_cluster, group, filters: Filters::of(planned_cluster.job, group), distinct }
    }

    /// Everything that is in the way on a node.
    pub fn on(&self, slot: NodeSlot) -> Vec<Obstacle> {
        let nodes = self.planned_cluster.store.nodes();
        let (Some(row), Some(detail)) = (nodes.row(slot), nodes.detail(slot)) else {
            return vec![Obstacle::NotReady("gone")];
        };
        let not_ready = match row.status {
            NodeStatus::Ready if row.eligible => None,
            NodeStatus::Ready => Some(Obstacle::NotReady("not eligible")),
            status => Some(Obstacle::NotReady(status.as_str())),
        };
        let filtered = self.filters.objections(&detail.node).map(Obstacle::Filtered);
        let distinct = self.distinct.iter().filter(|distinct| !distinct.is_open(slot, &detail.node));
        let distinct = distinct.map(|distinct| Obstacle::Distinct(distinct.text.clone()));
        let held = self.planned_cluster.ports.get(&slot).map_or(&[][..], Vec::as_slice);
        let is_taken = |port: &u16| {
            detail.ports.contains(port) || detail.node.reserved_ports.contains(port) || held.contains(port)
        };
        let ports = self.group.ports().filter_map(|port| port.fixed).filter(is_taken).map(Obstacle::Port);
        let mut all: Vec<Obstacle> =
            not_ready.into_iter().chain(filtered).chain(distinct).chain(ports).collect();
        let devices = self.planned_cluster.devices(slot);
        all.extend(short(self.requested(&detail.node, &devices), self.planned_cluster.free(slot)));
        // A node without such devices was turned away before.
        if self.filters.check(&detail.node).is_ok() {
            all.extend(device_shortage::short(self.group, &detail.node, &devices));
        }
        all
    }

    /// What is asked of a node, with the cpu of as many cores as there are: of the others it is said that they are short.
    fn requested(&self, node: &Node, held: &DevicesHeld) -> Resources {
        let cores = self.group.cores().min(device_shortage::free_cores(node, held));
        let cpu_mhz = cores.saturating_mul(node.core_mhz());
        self.group.resources().plus(Resources { cpu_mhz, ..Resources::ZERO })
    }
}

fn short(ask: Resources, free: Resources) -> impl Iterator<Item = Obstacle> {
    let of = |dimension, requested, free| {
        (requested > free).then_some(Obstacle::Short {
            what: ScarceResource::Room(dimension),
            requested,
            free,
        })
    };
    [
        of(Dimension::Cpu, ask.cpu_mhz, free.cpu_mhz),
        of(Dimension::Memory, ask.memory_mb, free.memory_mb),
        of(Dimension::Disk, ask.disk_mb, free.disk_mb),
    ]
    .into_iter()
    .flatten()
}

impl DistinctLimit {
    /// Among the allocations of one group, or of the whole job.
    fn of(planned_cluster: &PlannedCluster<'_>, constraint: &Constraint, group: Option<u16>) -> Option<Self> {
        let property = match constraint.operator {
            Operator::DistinctHosts if constraint.right != "false" => None,
            Operator::DistinctProperty => Some(Property::parse(&constraint.left)),
            _ => return None,
        };
        let counted = |peers: &&crate::place::PeerAlloc| group.is_none() || peers.group == group;
        let hosts: Vec<NodeSlot> =
            planned_cluster.peers.iter().filter(counted).map(|peers| peers.node).collect();
        let mut counts = HashMap::new();
        if let Some(property) = &property {
            let details = hosts.iter().filter_map(|slot| planned_cluster.store.nodes().detail(*slot));
            for value in details.filter_map(|detail| resolve(property, &detail.node).map(|v| v.into_owned()))
            {
                *counts.entry(value).or_default() += 1;
            }
        }
        let most = constraint.right.parse().unwrap_or(1);
        Some(Self {
            text: constraint.to_string(),
            property,
            hosts: hosts.into_iter().collect(),
            counts,
            most,
        })
    }

    fn is_open(&self, slot: NodeSlot, node: &Node) -> bool {
        match &self.property {
            None => !self.hosts.contains(&slot),
            Some(property) => resolve(property, node)
                .is_some_and(|value| self.counts.get(value.as_ref()).is_none_or(|used| *used < self.most)),
        }
    }
}

//! Zones: what the nodes of one have in common, and which nodes or classes are in which.

use std::hash::{Hash, Hasher};

use berth_model::store::NodeSlot;

use crate::{place::classes::ClassId, scores::ScoresOfNode};

/// Nodes that only packing distinguishes.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    /// What they score by themselves.
    pub scores: ScoresOfNode,
    /// Their values of the attributes, by position in [`super::Attribute::values`].
    pub values: Vec<Option<usize>>,
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.scores.bits(), &self.values).hash(state);
    }
}

/// What is in which zone: classes, or where requirements distinguish nodes of one class, nodes.
#[derive(Debug)]
pub(super) enum ZoneIndex {
    ByClass(ZonesBy<ClassId>),
    ByNode(ZonesBy<NodeSlot>),
}

/// The zones of all classes or nodes, and the other way round.
#[derive(Debug)]
pub(super) struct ZonesBy<T> {
    /// By number; none for what cannot run the group.
    zones: Vec<Option<u32>>,
    /// By zone.
    members: Vec<Vec<T>>,
}

/// What is in a zone.
#[derive(Debug, Clone, Copy)]
pub enum ZoneMembers<'a> {
    /// All nodes of these classes.
    Classes(&'a [ClassId]),
    /// These nodes.
    Nodes(&'a [NodeSlot]),
}

impl ZoneMembers<'_> {
    /// How many classes or nodes it has.
    pub fn len(self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Nodes(nodes) => nodes.len(),
        }
    }
}

impl ZoneIndex {
    /// Nothing is known yet.
    pub fn new(by_node: bool) -> Self {
        if by_node { Self::ByNode(ZonesBy::NOTHING) } else { Self::ByClass(ZonesBy::NOTHING) }
    }

    pub fn is_by_node(&self) -> bool {
        matches!(self, Self::ByNode(_))
    }

    /// Classes or nodes of which the zone is known.
    pub fn known(&self) -> usize {
        match self {
            Self::ByClass(answered) => answered.zones.len(),
            Self::ByNode(answered) => answered.zones.len(),
        }
    }

    /// The zone of the next class or node.
    pub fn learn(&mut self, zone: Option<u32>) {
        match self {
            Self::ByClass(answered) => answered.learn(zone, ClassId::nth),
            Self::ByNode(answered) => answered
                .learn(zone, |at| NodeSlot(u32::try_from(at).expect("there are fewer than 2^32 slots"))),
        }
    }

    pub fn zone(&self, class: ClassId, slot: NodeSlot) -> Option<u32> {
        match self {
            Self::ByClass(answered) => answered.zones[class.at()],
            Self::ByNode(answered) => answered.zones[slot.0 as usize],
        }
    }

    pub fn members(&self, zone: u32) -> ZoneMembers<'_> {
        match self {
            Self::ByClass(answered) => ZoneMembers::Classes(&answered.members[zone as usize]),
            Self::ByNode(answered) => ZoneMembers::Nodes(&answered.members[zone as usize]),
        }
    }
}

impl<T> ZonesBy<T> {
    const NOTHING: Self = Self { zones: Vec::new(), members: Vec::new() };

    fn learn(&mut self, zone: Option<u32>, member: impl FnOnce(usize) -> T) {
        if let Some(zone) = zone {
            if zone as usize >= self.members.len() {
                self.members.resize_with(zone as usize + 1, Vec::new);
            }
            self.members[zone as usize].push(member(self.zones.len()));
        }
        self.zones.push(zone);
    }
}

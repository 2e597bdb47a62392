//! What a group requires of nodes, or prefers, answered once for each class of nodes and remembered for all groups with the same
//! requirements.
//!
//! The nodes that can run a group fall into **zones**: within one, all score the same by themselves and have the same values
//! of the attributes by which allocations are counted, so that only packing distinguishes them.

mod cache;
mod zones;

use std::collections::HashMap;

use berth_model::{
    constraint::{Constraint, Operator},
    job::{Group, Job},
    node::Node,
    store::NodeSlot,
};

use self::zones::ZoneIndex;
pub use self::{
    cache::RequirementsCache,
    zones::{Zone, ZoneMembers},
};
use super::{classes::ClassId, columns::Columns};
use crate::{
    filters::{Filters, constraints_of},
    property::{Property, resolve},
    scores::{NodeScores, ScoresOfNode},
};

/// The requirements of one group, and which nodes meet them how well.
#[derive(Debug)]
pub struct Requirements {
    /// Which nodes can run the group.
    pub filters: Filters,
    /// What allocations are counted by: for each spread of the job and the group, then for each distinct property.
    pub attributes: Vec<Attribute>,
    scores: NodeScores,
    zones: Vec<Zone>,
    ids: HashMap<Zone, u32>,
    answers: ZoneIndex,
    epoch: u64,
    used: u64,
}

/// An attribute by which allocations are counted.
#[derive(Debug)]
pub struct Attribute {
    property: Property,
    /// The values that nodes have.
    pub values: Vec<String>,
    positions: HashMap<String, usize>,
}

impl Requirements {
    fn of(job: &Job, group: &Group) -> Self {
        let filters = Filters::of(job, group);
        let scores = NodeScores::of(job, group);
        let attributes: Vec<Attribute> = counted_by(job, group).map(Attribute::new).collect();
        let by_node = filters.is_unique()
            || scores.is_unique()
            || attributes.iter().any(|attribute| attribute.property.is_unique());
        Self {
            filters,
            attributes,
            scores,
            zones: Vec::new(),
            ids: HashMap::new(),
            answers: ZoneIndex::new(by_node),
            epoch: 0,
            used: 0,
        }
    }

    /// Whether nodes of one class can be in different zones.
    pub fn is_by_node(&self) -> bool {
        self.answers.is_by_node()
    }

    /// All zones.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// What is in a zone.
    pub fn members(&self, zone: u32) -> ZoneMembers<'_> {
        self.answers.members(zone)
    }

    /// The zone of a node of this class; none when it cannot run the group.
    pub fn zone_of(&self, class: ClassId, slot: NodeSlot) -> Option<u32> {
        self.answers.zone(class, slot)
    }

    /// The same of a node by its slot alone.
    pub fn zone(&self, columns: &Columns, slot: NodeSlot) -> Option<u32> {
        self.zone_of(columns.row(slot).class?, slot)
    }

    /// The values for which an allocation on a node counts, whether or not the node can run the group. None for those
    /// that no node has which can.
    pub fn values(&self, columns: &Columns, slot: NodeSlot) -> Vec<Option<usize>> {
        let node = columns.node(slot);
        let known = |attribute: &Attribute| {
            let value = resolve(&attribute.property, node?)?;
            attribute.positions.get(value.as_ref()).copied()
        };
        match self.zone(columns, slot) {
            Some(zone) => self.zones[zone as usize].values.clone(),
            None => self.attributes.iter().map(known).collect(),
        }
    }

    fn catch_up(&mut self, columns: &Columns) {
        let by_node = self.is_by_node();
        let epoch = if by_node { columns.epoch() } else { columns.classes().epoch() };
        if self.epoch != epoch {
            self.epoch = epoch;
            (self.zones, self.ids) = Default::default();
            self.answers = ZoneIndex::new(by_node);
        }
        let known = self.answers.known();
        let new: Vec<Option<DescribedZone>> = if by_node {
            let nodes = columns.slots().skip(known).map(|slot| columns.node(slot));
            nodes.map(|node| self.answer(node?)).collect()
        } else {
            columns.classes().examples().skip(known).map(|node| self.answer(node)).collect()
        };
        for described in new {
            let zone = described.map(|described| self.number(described));
            self.answers.learn(zone);
        }
    }

    fn answer(&self, node: &Node) -> Option<DescribedZone> {
        self.filters.check(node).ok()?;
        let values = self.attributes.iter().map(|a| resolve(&a.property, node).map(|v| v.into_owned()));
        Some(DescribedZone { scores: self.scores.score(node), values: values.collect() })
    }

    fn number(&mut self, described: DescribedZone) -> u32 {
        let values = self.attributes.iter_mut().zip(described.values);
        let values = values.map(|(attribute, value)| value.map(|value| attribute.position(value))).collect();
        let zone = Zone { scores: described.scores, values };
        *self.ids.entry(zone).or_insert_with_key(|zone| {
            self.zones.push(zone.clone());
            u32::try_from(self.zones.len() - 1).expect("fewer than 2^32 zones")
        })
    }
}

/// A [`Zone`] in words.
struct DescribedZone {
    scores: ScoresOfNode,
    values: Vec<Option<String>>,
}

impl Attribute {
    fn new(text: &str) -> Self {
        Self { property: Property::parse(text), values: Vec::new(), positions: HashMap::new() }
    }

    fn position(&mut self, value: String) -> usize {
        let next = self.values.len();
        *self.positions.entry(value).or_insert_with_key(|value| {
            self.values.push(value.clone());
            next
        })
    }
}

/// The attributes by which a group's allocations are counted: those of its spreads, then of its distinct properties.
fn counted_by<'a>(job: &'a Job, group: &'a Group) -> impl Iterator<Item = &'a str> {
    let is_distinct = |c: &&Constraint| c.operator == Operator::DistinctProperty;
    let spreads = job.spreads.iter().chain(&group.spreads).map(|spread| spread.attribute.as_str());
    spreads.chain(constraints_of(job, group).filter(is_distinct).map(|c| c.left.as_str()))
}

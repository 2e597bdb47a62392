//! What a group wishes of nodes, answered once for each class of nodes and remembered for all groups with the same
//! wishes.
//!
//! The nodes that can run a group fall into **zones**: within one, all have the same affinity and the same values of
//! the attributes by which allocations are counted, so that only packing tells them apart.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
};

use berth_model::{
    constraint::{Constraint, Operator},
    job::{Group, Job},
    node::Node,
    store::NodeSlot,
};

use super::columns::Columns;
use crate::{
    filters::{Filters, constraints_of},
    property::{Property, resolve},
    scores::{AffinityScore, affinities_of},
};

/// Sets of wishes kept; the least recently used one goes.
const WISHES_MAX: usize = 64;

/// The wishes of one group, and which nodes meet them how well.
#[derive(Debug)]
pub struct Wishes {
    /// Which nodes can run the group.
    pub filters: Filters,
    /// What allocations are counted by: for each spread of the job and the group, then for each distinct property.
    pub attributes: Vec<Attribute>,
    affinity: AffinityScore,
    zones: Vec<Zone>,
    ids: HashMap<Zone, u32>,
    answers: Answers,
    epoch: u64,
    used: u64,
}

/// Nodes that only packing tells apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    /// Their affinity score.
    pub affinity: f64,
    /// Their values of the attributes, by position in [`Attribute::values`].
    pub values: Vec<Option<usize>>,
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.affinity.to_bits(), &self.values).hash(state);
    }
}

/// An attribute by which allocations are counted.
#[derive(Debug)]
pub struct Attribute {
    property: Property,
    /// The values that nodes have.
    pub values: Vec<String>,
    positions: HashMap<String, usize>,
}

/// The zone of each class, or where the wishes tell nodes of one class apart, of each node. None where a node cannot
/// run the group.
#[derive(Debug)]
enum Answers {
    ByClass(Vec<Option<u32>>),
    ByNode(Vec<Option<u32>>),
}

impl Wishes {
    fn of(job: &Job, group: &Group) -> Self {
        let filters = Filters::of(job, group);
        let affinity = AffinityScore::of(job, group);
        let attributes: Vec<Attribute> = counted_by(job, group).map(Attribute::new).collect();
        let by_node = filters.is_unique()
            || affinity.is_unique()
            || attributes.iter().any(|attribute| attribute.property.is_unique());
        Self {
            filters,
            attributes,
            affinity,
            zones: Vec::new(),
            ids: HashMap::new(),
            answers: if by_node { Answers::ByNode(Vec::new()) } else { Answers::ByClass(Vec::new()) },
            epoch: 0,
            used: 0,
        }
    }

    /// Whether nodes of one class can be in different zones.
    pub fn is_by_node(&self) -> bool {
        matches!(self.answers, Answers::ByNode(_))
    }

    /// All zones.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// The zone of each class, by id.
    pub fn zones_of_classes(&self) -> &[Option<u32>] {
        match &self.answers {
            Answers::ByClass(zones) => zones,
            Answers::ByNode(_) => &[],
        }
    }

    /// The zone of a node; none when it cannot run the group.
    pub fn zone(&self, columns: &Columns, slot: NodeSlot) -> Option<u32> {
        match &self.answers {
            Answers::ByClass(zones) => zones[columns.class(slot)?.0 as usize],
            Answers::ByNode(zones) => zones[slot.0 as usize],
        }
    }

    fn catch_up(&mut self, columns: &Columns) {
        let epoch = if self.is_by_node() { columns.epoch() } else { columns.classes().epoch() };
        if self.epoch != epoch {
            self.epoch = epoch;
            (self.zones, self.ids) = Default::default();
            self.answers = match self.answers {
                Answers::ByClass(_) => Answers::ByClass(Vec::new()),
                Answers::ByNode(_) => Answers::ByNode(Vec::new()),
            };
        }
        match &self.answers {
            Answers::ByClass(known) => {
                let new = columns.classes().examples().skip(known.len());
                let zones: Vec<_> = new.map(|node| self.answer(node)).collect();
                self.learn(zones);
            }
            Answers::ByNode(known) => {
                let new = columns.slots().skip(known.len());
                let zones: Vec<_> =
                    new.map(|slot| columns.node(slot).and_then(|node| self.answer(node))).collect();
                self.learn(zones);
            }
        }
    }

    fn learn(&mut self, zones: Vec<Option<Described>>) {
        for described in zones {
            let zone = described.map(|described| self.zone_of(described));
            match &mut self.answers {
                Answers::ByClass(known) | Answers::ByNode(known) => known.push(zone),
            }
        }
    }

    fn answer(&self, node: &Node) -> Option<Described> {
        self.filters.check(node).ok()?;
        let values = self.attributes.iter().map(|a| resolve(&a.property, node).map(|v| v.into_owned()));
        Some(Described { affinity: self.affinity.score(node), values: values.collect() })
    }

    fn zone_of(&mut self, described: Described) -> u32 {
        let values = self.attributes.iter_mut().zip(described.values);
        let values = values.map(|(attribute, value)| value.map(|value| attribute.position(value))).collect();
        let zone = Zone { affinity: described.affinity, values };
        *self.ids.entry(zone).or_insert_with_key(|zone| {
            self.zones.push(zone.clone());
            u32::try_from(self.zones.len() - 1).expect("fewer than 2^32 zones")
        })
    }
}

/// A [`Zone`] in words.
struct Described {
    affinity: f64,
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

/// The wishes seen lately.
#[derive(Debug, Default)]
pub struct WishesCache {
    known: HashMap<u64, Known>,
    hasher: RandomState,
    clock: u64,
}

#[derive(Debug)]
struct Known {
    job: Arc<Job>,
    group: usize,
    wishes: Wishes,
}

impl WishesCache {
    /// The wishes of a group, and the zones of the nodes as they are now.
    pub fn get(&mut self, job: &Arc<Job>, group: usize, columns: &Columns) -> &Wishes {
        self.clock += 1;
        let key = self.hasher.hash_one(Key(job, &job.groups[group]));
        let is_same = self.known.get(&key).is_some_and(|known| {
            Key(&known.job, &known.job.groups[known.group]) == Key(job, &job.groups[group])
        });
        if !is_same {
            if self.known.len() >= WISHES_MAX {
                self.drop_oldest();
            }
            let wishes = Wishes::of(job, &job.groups[group]);
            self.known.insert(key, Known { job: job.clone(), group, wishes });
        }
        let known = self.known.get_mut(&key).expect("it was there or was just put there");
        known.wishes.used = self.clock;
        known.wishes.catch_up(columns);
        &known.wishes
    }

    fn drop_oldest(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, known)| known.wishes.used).map(|(key, _)| *key);
        oldest.and_then(|key| self.known.remove(&key));
    }
}

/// A group, seen as what its [`Wishes`] depend on.
struct Key<'a>(&'a Job, &'a Group);

impl Key<'_> {
    fn drivers(&self) -> impl Iterator<Item = &str> {
        self.1.tasks.iter().map(|task| task.driver.as_str())
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.node_pool == other.0.node_pool
            && self.0.datacenters == other.0.datacenters
            && self.drivers().eq(other.drivers())
            && self.1.devices().eq(other.1.devices())
            && self.1.cores() == other.1.cores()
            && constraints_of(self.0, self.1).eq(constraints_of(other.0, other.1))
            && affinities_of(self.0, self.1).eq(affinities_of(other.0, other.1))
            && counted_by(self.0, self.1).eq(counted_by(other.0, other.1))
    }
}

impl Hash for Key<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.0.node_pool, &self.0.datacenters).hash(state);
        self.drivers().for_each(|driver| driver.hash(state));
        self.1.devices().for_each(|ask| ask.hash(state));
        self.1.cores().hash(state);
        constraints_of(self.0, self.1).for_each(|constraint| constraint.hash(state));
        affinities_of(self.0, self.1).for_each(|affinity| affinity.hash(state));
        counted_by(self.0, self.1).for_each(|attribute| attribute.hash(state));
    }
}

/// The attributes by which a group's allocations are counted: those of its spreads, then of its distinct properties.
fn counted_by<'a>(job: &'a Job, group: &'a Group) -> impl Iterator<Item = &'a str> {
    let is_distinct = |c: &&Constraint| c.operator == Operator::DistinctProperty;
    let spreads = job.spreads.iter().chain(&group.spreads).map(|spread| spread.attribute.as_str());
    spreads.chain(constraints_of(job, group).filter(is_distinct).map(|c| c.left.as_str()))
}

//! The answers of filters, remembered for all groups with the same wishes until a node changes.

use std::{collections::HashMap, rc::Rc};

use berth_model::{node::Node, store::NodeSlot};

use super::columns::Columns;
use crate::filters::{Filters, Refused, Signature};

/// Sets of answers kept; the least recently used one goes.
const SETS_MAX: usize = 64;

/// Which nodes can run a group, room aside.
#[derive(Debug)]
pub struct Feasible {
    fits: Vec<bool>,
    epoch: u64,
    used: u64,
}

impl Feasible {
    /// Whether a node can.
    pub fn fits(&self, slot: NodeSlot) -> bool {
        self.fits[slot.0 as usize]
    }
}

/// The answers for the wishes asked lately.
#[derive(Debug, Default)]
pub struct FeasibleCache {
    sets: HashMap<Signature, Rc<Feasible>>,
    clock: u64,
}

impl FeasibleCache {
    /// Which nodes pass a group's filters.
    pub fn get(&mut self, filters: &Filters, columns: &Columns) -> Rc<Feasible> {
        self.clock += 1;
        let known = self
            .sets
            .get(&filters.signature)
            .filter(|set| set.epoch == columns.epoch() && set.fits.len() == columns.len());
        if let Some(set) = known {
            return set.clone();
        }
        let set =
            Rc::new(Feasible { fits: answers(filters, columns), epoch: columns.epoch(), used: self.clock });
        if self.sets.len() >= SETS_MAX {
            self.drop_oldest();
        }
        self.sets.insert(filters.signature.clone(), set.clone());
        set
    }

    fn drop_oldest(&mut self) {
        let oldest = self.sets.iter().min_by_key(|(_, set)| set.used).map(|(signature, _)| signature.clone());
        if let Some(signature) = oldest {
            self.sets.remove(&signature);
        }
    }
}

fn answers(filters: &Filters, columns: &Columns) -> Vec<bool> {
    let mut by_class: HashMap<NodeClass<'_>, bool> = HashMap::new();
    let unique = filters.is_unique();
    let answer = |node: &Node| filters.check(node).is_ok();
    let slots = columns.slots().map(|slot| columns.node(slot));
    slots
        .map(|node| match node {
            None => false,
            Some(node) if unique => answer(node),
            Some(node) => *by_class.entry(NodeClass(node)).or_insert_with(|| answer(node)),
        })
        .collect()
}

/// A node seen without what is its alone.
struct NodeClass<'a>(&'a Node);

impl NodeClass<'_> {
    fn parts(&self) -> impl Iterator<Item = (&str, &str)> {
        let node = self.0;
        let shared =
            |(k, v): (&'_ String, &'_ String)| (!k.starts_with("unique.")).then_some((k, v)).is_some();
        let named = [("dc", &node.datacenter), ("pool", &node.pool), ("class", &node.class)];
        let named = named.into_iter().map(|(k, v)| (k, v.as_str()));
        let maps = node.attributes.iter().chain(&node.meta).filter(move |entry| shared(*entry));
        named.chain(maps.map(|(k, v)| (k.as_str(), v.as_str())))
    }
}

impl std::hash::Hash for NodeClass<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().for_each(|part| part.hash(state));
    }
}

impl PartialEq for NodeClass<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.attributes.len() == other.0.attributes.len() && self.parts().eq(other.parts())
    }
}

impl Eq for NodeClass<'_> {}

/// Why a node is not feasible, for people.
pub fn refusal(filters: &Filters, node: &Node) -> Option<Refused> {
    filters.check(node).err()
}

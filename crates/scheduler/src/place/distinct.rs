//! Constraints on how a job's allocations lie to each other: `distinct_hosts` and `distinct_property`.

use std::collections::{HashMap, HashSet};

use berth_model::{
    constraint::{Constraint, Operator},
    node::Node,
    store::NodeSlot,
};

use crate::property::{Property, resolve};

/// Keeps the distinct constraints of one group while a plan is made.
#[derive(Debug, Default)]
pub struct Distinct {
    /// Nodes that hold an allocation already, when hosts must differ.
    hosts: Option<HashSet<NodeSlot>>,
    properties: Vec<DistinctProperty>,
}

#[derive(Debug)]
struct DistinctProperty {
    property: Property,
    reason: String,
    most: u32,
    counts: HashMap<String, u32>,
}

impl Distinct {
    /// The distinct constraints among these.
    pub fn of<'a>(constraints: impl Iterator<Item = &'a Constraint>) -> Self {
        let mut distinct = Self::default();
        for constraint in constraints {
            match constraint.operator {
                Operator::DistinctHosts if constraint.right != "false" => {
                    distinct.hosts = Some(HashSet::new())
                }
                Operator::DistinctProperty => distinct.properties.push(DistinctProperty {
                    property: Property::parse(&constraint.left),
                    reason: constraint.to_string(),
                    most: constraint.right.parse().unwrap_or(1),
                    counts: HashMap::new(),
                }),
                _ => {}
            }
        }
        distinct
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_none() && self.properties.is_empty()
    }

    /// An allocation is on this node.
    pub fn add(&mut self, slot: NodeSlot, node: &Node) {
        if let Some(hosts) = &mut self.hosts {
            hosts.insert(slot);
        }
        for distinct in &mut self.properties {
            if let Some(value) = resolve(&distinct.property, node) {
                *distinct.counts.entry(value.into_owned()).or_default() += 1;
            }
        }
    }

    /// Whether one more may go to this node.
    ///
    /// # Errors
    /// The reason as people read it.
    pub fn check(&self, slot: NodeSlot, node: &Node) -> Result<(), String> {
        if self.hosts.as_ref().is_some_and(|hosts| hosts.contains(&slot)) {
            return Err("distinct_hosts".to_owned());
        }
        for distinct in &self.properties {
            let Some(value) = resolve(&distinct.property, node) else { return Err(distinct.reason.clone()) };
            if distinct.counts.get(value.as_ref()).is_some_and(|count| *count >= distinct.most) {
                return Err(distinct.reason.clone());
            }
        }
        Ok(())
    }
}

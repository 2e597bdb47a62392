//! How good the nodes of allocations that are there already are for their group, as if each were placed there now.

use std::collections::BTreeMap;

use berth_model::{
    constraint::Spread,
    job::{Group, Job},
    node::Node,
    store::{NodeSlot, Store},
};

use crate::{
    property::{Property, resolve},
    scores::{AffinityScore, Mean, Powers, SpreadScore, anti_affinity, bin_pack, spared},
};

/// What placement scores a node by, of one group whose other allocations have been told.
pub(super) struct Standing<'a> {
    store: &'a Store,
    job: &'a Job,
    group: &'a Group,
    affinity: AffinityScore,
    asks_devices: bool,
    spreads: Vec<Counts<'a>>,
    by_node: BTreeMap<NodeSlot, u32>,
}

/// The group's allocations by the values of one spread's attribute.
struct Counts<'a> {
    spread: &'a Spread,
    property: Property,
    by_value: BTreeMap<String, u32>,
}

impl<'a> Standing<'a> {
    pub(super) fn of(store: &'a Store, (job, group): (&'a Job, &'a Group)) -> Self {
        let spreads = job.spreads.iter().chain(&group.spreads).map(|spread| Counts {
            spread,
            property: Property::parse(&spread.attribute),
            by_value: BTreeMap::new(),
        });
        Self {
            store,
            job,
            group,
            affinity: AffinityScore::of(job, group),
            asks_devices: group.devices().next().is_some(),
            spreads: spreads.collect(),
            by_node: BTreeMap::new(),
        }
    }

    /// An allocation of the group that stays is on this node.
    pub(super) fn add(&mut self, slot: NodeSlot) {
        *self.by_node.entry(slot).or_default() += 1;
        let Some(detail) = self.store.nodes().detail(slot) else { return };
        for counts in &mut self.spreads {
            if let Some(value) = resolve(&counts.property, &detail.node) {
                *counts.by_value.entry(value.into_owned()).or_default() += 1;
            }
        }
    }

    /// The score of a node that has room for one more of the group, which is there; 0 for one that is gone.
    pub(super) fn score(&self, slot: NodeSlot) -> f64 {
        let nodes = self.store.nodes();
        let (Some(row), Some(detail)) = (nodes.row(slot), nodes.detail(slot)) else { return 0.0 };
        let ask = self.group.resources_on(&detail.node);
        let free = row.free().plus(ask);
        let algorithm = self.store.scheduler_config().algorithm(&self.job.node_pool);
        let packing = bin_pack(algorithm, Powers::of(free, row.capacity), Powers::of(ask, row.capacity));
        let collisions = self.by_node.get(&slot).copied().unwrap_or_default();
        let affinity = self.affinity.score(&detail.node);
        Mean::PACKING_ALONE
            .with(anti_affinity(collisions, self.group.count))
            .with(affinity)
            .with(self.spread(&detail.node))
            .with(spared(self.asks_devices, &detail.node, affinity))
            .of(packing)
    }

    fn spread(&self, node: &Node) -> f64 {
        let weights = self.spreads.iter().map(|counts| u32::from(counts.spread.weight)).sum();
        self.spreads.iter().map(|counts| counts.score(node, self.group.count, weights)).sum()
    }
}

impl Counts<'_> {
    fn score(&self, node: &Node, desired: u32, weights: u32) -> f64 {
        let own = resolve(&self.property, node);
        let unused = own.as_ref().filter(|value| !self.by_value.contains_key(value.as_ref()));
        let values: Vec<String> =
            self.by_value.keys().cloned().chain(unused.map(|value| value.to_string())).collect();
        let mut score = SpreadScore::new(self.spread, desired, weights, &values);
        for (value, count) in self.by_value.values().enumerate() {
            for _ in 0..*count {
                score.add(value);
            }
        }
        score.score(own.and_then(|own| values.iter().position(|value| *value == own)))
    }
}

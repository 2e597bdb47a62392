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
    scores::{Candidate, NodeScores, Powers, SpreadScore, bin_pack},
};

/// What placement scores a node by, of one group whose other allocations are known.
pub(super) struct GroupScorer<'a> {
    store: &'a Store,
    job: &'a Job,
    group: &'a Group,
    scores: NodeScores,
    spreads: Vec<SpreadCounts<'a>>,
    by_node: BTreeMap<NodeSlot, u32>,
}

/// The group's allocations by the values of one spread's attribute.
struct SpreadCounts<'a> {
    spread: &'a Spread,
    property: Property,
    by_value: BTreeMap<String, u32>,
}

impl<'a> GroupScorer<'a> {
    pub(super) fn of(store: &'a Store, (job, group): (&'a Job, &'a Group)) -> Self {
        let spreads = job.spreads.iter().chain(&group.spreads).map(|spread| SpreadCounts {
            spread,
            property: Property::parse(&spread.attribute),
            by_value: BTreeMap::new(),
        });
        Self {
            store,
            job,
            group,
            scores: NodeScores::of(job, group),
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

    /// The score of a node that has capacity for one more of the group, which is there; 0 for one that is gone.
    pub(super) fn score(&self, slot: NodeSlot) -> f64 {
        let nodes = self.store.nodes();
        let (Some(row), Some(detail)) = (nodes.row(slot), nodes.detail(slot)) else { return 0.0 };
        let ask = self.group.resources_on(&detail.node);
        let free = row.free().plus(ask);
        let algorithm = self.store.scheduler_config().algorithm(&self.job.node_pool);
        let packing = bin_pack(algorithm, Powers::of(free, row.capacity), Powers::of(ask, row.capacity));
        let collisions = self.by_node.get(&slot).copied().unwrap_or_default();
        let weights = self.spreads.iter().map(|counts| u32::from(counts.spread.weight)).sum();
        let spreads = self.spreads.iter().map(|counts| counts.of(&detail.node, self.group.count, weights));
        let (spreads, values): (Vec<SpreadScore>, Vec<Option<usize>>) = spreads.unzip();
        let candidate = Candidate {
            of_node: self.scores.score(&detail.node),
            collisions,
            desired: self.group.count,
            spreads: &spreads,
            values: &values,
            device_affinity: 0.0,
            has_failed: false,
        };
        candidate.mean().of(packing)
    }
}

impl SpreadCounts<'_> {
    /// The spread with all that is counted, and which value the node has.
    fn of(&self, node: &Node, desired: u32, weights: u32) -> (SpreadScore, Option<usize>) {
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
        (score, own.and_then(|own| values.iter().position(|value| *value == own)))
    }
}

//! Nodes with devices are left to those who ask for devices, as long as there is capacity elsewhere.

use berth_model::{
    job::{Group, Job},
    node::Node,
};

use super::{NodeScore, ScoreKind, ScoreRule, affinity::AffinityScore};

pub(super) const SCORE: ScoreKind = ScoreKind {
    name: "spared-devices",
    description: "-1 for a node with devices where none are asked for, unless the job has an affinity to it",
    rule: ScoreRule::OfNode(|job, group| Box::new(SparedDevices::of(job, group))),
};

#[derive(Debug)]
struct SparedDevices {
    asks_devices: bool,
    /// A node that the job likes is not kept from it.
    affinity: AffinityScore,
}

impl SparedDevices {
    fn of(job: &Job, group: &Group) -> Self {
        Self { asks_devices: group.devices().next().is_some(), affinity: AffinityScore::of(job, group) }
    }
}

impl NodeScore for SparedDevices {
    fn score(&self, node: &Node) -> f64 {
        let has_devices = node.devices.iter().any(|device| !device.instances.is_empty());
        if has_devices && !self.asks_devices && self.affinity.score(node) <= 0.0 { -1.0 } else { 0.0 }
    }

    fn is_unique(&self) -> bool {
        self.affinity.is_unique()
    }
}

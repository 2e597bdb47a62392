//! How good a node is for a group: a file per score, and one list that names them.

mod affinity;
mod anti_affinity;
mod bin_pack;
mod reschedule;
mod spared;
mod spread;
pub mod stranded;

pub use affinity::{AffinityScore, affinities_of};
pub use anti_affinity::anti_affinity;
pub use bin_pack::{Powers, bin_pack, bin_pack_bound};
pub use reschedule::RESCHEDULE_PENALTY;
pub use spared::spared;
pub use spread::SpreadScore;

/// Every score by its name, and what it says. A node's score is the mean of those that are not zero; packing counts
/// even then.
pub const SCORES: &[(&str, &str)] = &[
    ("binpack", "0 to 1: how full the node would be, or how empty where the scheduler spreads load"),
    ("job-anti-affinity", "-(n + 1) / count for a node with n allocations of the same group"),
    (
        "devices",
        "0 to 1 in place of binpack where devices are asked for: the fewer are lost for others, the higher; an affinity \
         to devices of -1 to 1 counts besides",
    ),
    (
        "spared-devices",
        "-1 for a node with devices where none are asked for, unless the job has an affinity to it",
    ),
    (
        "node-affinity",
        "-1 to 1: the weights of the affinities it meets, of the sum of all without their signs",
    ),
    ("allocation-spread", "-1 to 1 for each spread: how far its value is below its share, by weight"),
    ("node-reschedule-penalty", "-1 for a node on which a predecessor failed that still counts"),
];

/// A mean of the scores that count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    /// Of nothing but what packing will add.
    pub const PACKING_ALONE: Self = Self { sum: 0.0, count: 1.0 };

    /// With one more score, unless it is zero.
    pub fn with(self, score: f64) -> Self {
        if score == 0.0 { self } else { Self { sum: self.sum + score, count: self.count + 1.0 } }
    }

    /// The mean, with what packing scores.
    pub fn of(self, packing: f64) -> f64 {
        (self.sum + packing) / self.count
    }
}

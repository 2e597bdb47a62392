//! Affinity to devices: how well a node's devices meet what a group would rather have.

use super::{Rule, Score};

pub(super) const SCORE: Score = Score {
    name: "device-affinity",
    says: "-1 to 1: the weights of the affinities that the devices it would give meet, of the sum of all without their signs",
    rule: Rule::OfCandidate(|candidate| candidate.device_affinity),
};

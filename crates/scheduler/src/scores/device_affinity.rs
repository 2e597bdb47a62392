//! Affinity to devices: how well a node's devices meet what a group prefers.

use super::{ScoreKind, ScoreRule};

pub(super) const SCORE: ScoreKind = ScoreKind {
    name: "device-affinity",
    description: "-1 to 1: the weights of the affinities that the devices it would give meet, of the sum of all without their signs",
    rule: ScoreRule::OfCandidate(|candidate| candidate.device_affinity),
};

//! Anti-affinity: allocations of one group are preferably placed on different nodes.

use super::{Candidate, ScoreKind, ScoreRule};

pub(super) const SCORE: ScoreKind = ScoreKind {
    name: "job-anti-affinity",
    description: "-(n + 1) / count for a node with n allocations of the same group",
    rule: ScoreRule::OfCandidate(anti_affinity),
};

fn anti_affinity(&Candidate { collisions, desired, .. }: &Candidate<'_>) -> f64 {
    if collisions == 0 { 0.0 } else { -f64::from(collisions + 1) / f64::from(desired.max(1)) }
}

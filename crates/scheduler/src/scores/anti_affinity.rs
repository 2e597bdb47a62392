//! Anti-affinity: allocations of one group rather lie on different nodes.

use super::{Candidate, Rule, Score};

pub(super) const SCORE: Score = Score {
    name: "job-anti-affinity",
    says: "-(n + 1) / count for a node with n allocations of the same group",
    rule: Rule::OfCandidate(anti_affinity),
};

fn anti_affinity(&Candidate { collisions, desired, .. }: &Candidate<'_>) -> f64 {
    if collisions == 0 { 0.0 } else { -f64::from(collisions + 1) / f64::from(desired.max(1)) }
}

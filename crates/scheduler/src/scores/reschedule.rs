//! Reschedule penalty: what failed on a node is preferably placed elsewhere.

use super::{ScoreKind, ScoreRule};

pub(super) const SCORE: ScoreKind = ScoreKind {
    name: "node-reschedule-penalty",
    description: "-1 for a node on which a predecessor failed that still counts",
    rule: ScoreRule::OfCandidate(|candidate| if candidate.has_failed { -1.0 } else { 0.0 }),
};

//! Reschedule penalty: what failed on a node is rather tried elsewhere.

use super::{Rule, Score};

pub(super) const SCORE: Score = Score {
    name: "node-reschedule-penalty",
    says: "-1 for a node on which a predecessor failed that still counts",
    rule: Rule::OfCandidate(|candidate| if candidate.has_failed { -1.0 } else { 0.0 }),
};

//! How good a node is for a group: a file per score, and one list of them.

mod affinity;
mod anti_affinity;
mod bin_pack;
mod device_affinity;
mod reschedule;
mod spared;
mod spread;
pub mod stranded;

use berth_model::{
    job::{Group, Job},
    node::Node,
};

pub use affinity::affinities_of;
pub use bin_pack::{Powers, bin_pack, bin_pack_bound};
pub use spread::SpreadScore;

/// Every score. A node's score is the mean of those that are not zero, added up in this order; packing counts even then.
pub const SCORES: &[ScoreKind] = &[
    bin_pack::SCORE,
    stranded::SCORE,
    anti_affinity::SCORE,
    affinity::SCORE,
    spread::SCORE,
    spared::SCORE,
    device_affinity::SCORE,
    reschedule::SCORE,
];

/// A kind of score, and what it is computed from.
#[derive(Debug)]
pub struct ScoreKind {
    /// As Nomad names it, where it has the same.
    pub name: &'static str,
    /// Its range, and what it says.
    pub description: &'static str,
    rule: ScoreRule,
}

/// What a score depends on, and so how often it is computed.
#[derive(Debug)]
enum ScoreRule {
    /// On the capacity that a node has left: it alone distinguishes nodes of one zone. The search for the best node and the
    /// catalog of devices are built upon these, and each placement counts one of them.
    Packing,
    /// On the node and the group alone: computed once for a class of nodes.
    OfNode(fn(&Job, &Group) -> Box<dyn NodeScore>),
    /// On what else of the group is placed, or on the allocation to be placed: computed for each.
    OfCandidate(fn(&Candidate<'_>) -> f64),
}

/// A score of nodes, made for one group.
trait NodeScore: std::fmt::Debug + Send + Sync {
    /// From -1 to 1; 0 does not count.
    fn score(&self, node: &Node) -> f64;

    /// Whether nodes of one class can score differently.
    fn is_unique(&self) -> bool {
        false
    }
}

/// How many of the scores depend on the node and the group alone.
const NODE_SCORES: usize = {
    let (mut count, mut at) = (0, 0);
    while at < SCORES.len() {
        if matches!(SCORES[at].rule, ScoreRule::OfNode(_)) {
            count += 1;
        }
        at += 1;
    }
    count
};

/// What a node scores by itself, in the order of the list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoresOfNode([f64; NODE_SCORES]);

impl ScoresOfNode {
    /// Two are the same exactly when these are.
    pub fn bits(self) -> impl std::hash::Hash {
        self.0.map(f64::to_bits)
    }
}

/// The scores of nodes, made for one group.
#[derive(Debug)]
pub struct NodeScores(Vec<Box<dyn NodeScore>>);

impl NodeScores {
    /// Those of a group.
    pub fn of(job: &Job, group: &Group) -> Self {
        let prepare = |score: &ScoreKind| match score.rule {
            ScoreRule::OfNode(make) => Some(make(job, group)),
            ScoreRule::Packing | ScoreRule::OfCandidate(_) => None,
        };
        Self(SCORES.iter().filter_map(prepare).collect())
    }

    /// What a node scores.
    pub fn score(&self, node: &Node) -> ScoresOfNode {
        let mut scores = [0.0; NODE_SCORES];
        for (score, of) in scores.iter_mut().zip(&self.0) {
            *score = of.score(node);
        }
        ScoresOfNode(scores)
    }

    /// Whether nodes of one class can score differently.
    pub fn is_unique(&self) -> bool {
        self.0.iter().any(|score| score.is_unique())
    }
}

/// A node that one more allocation of a group may go to.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// What it scores by itself.
    pub of_node: ScoresOfNode,
    /// Allocations of the group that are there already.
    pub collisions: u32,
    /// Allocations that the group wants in all.
    pub desired: u32,
    /// The spreads of the group, with what is placed so far.
    pub spreads: &'a [SpreadScore],
    /// The node's value of each spread's attribute; what comes after these is not looked at.
    pub values: &'a [Option<usize>],
    /// -1 to 1: how well its devices meet the affinities to devices.
    pub device_affinity: f64,
    /// A predecessor of the allocation failed there, and that still counts.
    pub has_failed: bool,
}

impl Candidate<'_> {
    /// The mean of what counts, packing left out.
    #[inline]
    pub fn mean(&self) -> ScoreMean {
        let mut of_node = self.of_node.0.iter();
        SCORES.iter().fold(ScoreMean::PACKING_ALONE, |mean, score| match score.rule {
            ScoreRule::Packing => mean,
            ScoreRule::OfNode(_) => of_node.next().map_or(mean, |score| mean.with(*score)),
            ScoreRule::OfCandidate(score) => mean.with(score(self)),
        })
    }
}

/// A mean of the scores that count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreMean {
    sum: f64,
    count: f64,
}

impl ScoreMean {
    /// Of nothing but what packing will add.
    const PACKING_ALONE: Self = Self { sum: 0.0, count: 1.0 };

    /// With one more score, unless it is zero.
    fn with(self, score: f64) -> Self {
        if score == 0.0 { self } else { Self { sum: self.sum + score, count: self.count + 1.0 } }
    }

    /// The mean, with what packing scores.
    pub fn of(self, packing: f64) -> f64 {
        (self.sum + packing) / self.count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_score_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = SCORES.iter().map(|score| score.name).collect();
        assert_eq!(names.len(), SCORES.len());
    }

    #[test]
    fn scores_that_are_zero_do_not_count() {
        let candidate = |collisions, has_failed| Candidate {
            of_node: ScoresOfNode([0.0; NODE_SCORES]),
            collisions,
            desired: 4,
            spreads: &[],
            values: &[],
            device_affinity: 0.0,
            has_failed,
        };
        assert_eq!(candidate(0, false).mean().of(0.5), 0.5);
        assert_eq!(candidate(1, false).mean().of(0.5), 0.0);
        assert_eq!(candidate(1, true).mean().of(0.5), (-0.5 - 1.0 + 0.5) / 3.0);
    }
}

//! Affinity: how many of the group's affinities a node meets, by their weights.

use berth_model::{
    constraint::Affinity,
    job::{Group, Job},
    node::Node,
};

use super::{NodeScore, ScoreKind, ScoreRule};
use crate::filters::Condition;

pub(super) const SCORE: ScoreKind = ScoreKind {
    name: "node-affinity",
    description: "-1 to 1: the weights of the affinities it meets, of the sum of all without their signs",
    rule: ScoreRule::OfNode(|job, group| Box::new(AffinityScore::of(job, group))),
};

/// The affinities of one group.
#[derive(Debug)]
pub(super) struct AffinityScore {
    affinities: Vec<(Condition, f64)>,
    /// The sum of the weights, each without its sign.
    weights: f64,
}

impl AffinityScore {
    /// Those of the job, the group and its tasks.
    pub fn of(job: &Job, group: &Group) -> Self {
        let affinities: Vec<(Condition, f64)> = affinities_of(job, group)
            .map(|a| (Condition::new(&a.left, a.operator, &a.right), f64::from(a.weight)))
            .collect();
        let weights = affinities.iter().map(|(_, weight)| weight.abs()).sum();
        Self { affinities, weights }
    }
}

impl NodeScore for AffinityScore {
    /// -1 for a node that meets all with a negative weight, to 1 for one that meets all others.
    fn score(&self, node: &Node) -> f64 {
        let met = self.affinities.iter().filter(|(affinity, _)| affinity.holds(node));
        let met: f64 = met.map(|(_, weight)| weight).sum();
        if self.weights == 0.0 { 0.0 } else { met / self.weights }
    }

    fn is_unique(&self) -> bool {
        self.affinities.iter().any(|(affinity, _)| affinity.is_unique())
    }
}

/// The affinities of a group: the job's, its own, and its tasks'.
pub fn affinities_of<'a>(job: &'a Job, group: &'a Group) -> impl Iterator<Item = &'a Affinity> {
    let tasks = group.tasks.iter().flat_map(|task| &task.affinities);
    job.affinities.iter().chain(&group.affinities).chain(tasks)
}

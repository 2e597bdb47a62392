//! Spread: the fewer allocations of the group a value of an attribute has, the better its nodes.

use berth_model::constraint::Spread;

use super::{ScoreKind, ScoreRule};

pub(super) const SCORE: ScoreKind = ScoreKind {
    name: "allocation-spread",
    description: "-1 to 1 for each spread: how far its value is below its share, by weight",
    rule: ScoreRule::OfCandidate(|candidate| {
        candidate.spreads.iter().zip(candidate.values).map(|(spread, value)| spread.score(*value)).sum()
    }),
};

/// Counts of one group's allocations by the values of one attribute, and what they mean for the next one. Values are
/// identified by their position in a list that its owner keeps.
///
/// With targets, what counts is how far a value is below its share; without, how far below the fullest value it is.
#[derive(Debug)]
pub struct SpreadScore {
    /// This spread's weight among all of the group's.
    share: f64,
    /// Wanted allocations by value, none for what no target names; empty for evenly.
    desired: Vec<Option<f64>>,
    counts: Vec<u32>,
    /// The highest of these counts.
    most: u32,
}

impl SpreadScore {
    /// The spread of a group of `count` allocations over `values`, with none placed yet; `weights` is the sum over all
    /// its spreads.
    pub fn new(spread: &Spread, count: u32, weights: u32, values: &[String]) -> Self {
        Self {
            share: f64::from(spread.weight) / f64::from(weights.max(1)),
            desired: if spread.targets.is_empty() { Vec::new() } else { desired(spread, count, values) },
            counts: vec![0; values.len()],
            most: 0,
        }
    }

    /// An allocation is placed where the attribute has this value. Tells whether that changes the score of others too.
    pub fn add(&mut self, value: usize) -> bool {
        let count = &mut self.counts[value];
        *count += 1;
        let is_most = *count > self.most;
        self.most = self.most.max(*count);
        is_most && self.desired.is_empty()
    }

    /// How good a node with this value is, from -1 to 1; a node without one is worst.
    pub fn score(&self, value: Option<usize>) -> f64 {
        let Some(value) = value else { return -1.0 };
        let used = self.counts[value];
        if self.desired.is_empty() {
            return even_score(used, self.most) * self.share;
        }
        match self.desired[value] {
            Some(desired) if desired > 0.0 => (desired - f64::from(used + 1)) / desired * self.share,
            _ => -1.0,
        }
    }
}

/// How many allocations each value should have. Values that no target names share what the targets leave.
fn desired(spread: &Spread, count: u32, values: &[String]) -> Vec<Option<f64>> {
    let share = |percent: u32| f64::from(percent) / 100.0 * f64::from(count);
    let named: u32 = spread.targets.iter().map(|target| u32::from(target.percent)).sum();
    let rest = (named < 100).then(|| share(100 - named));
    let of = |value: &String| spread.targets.iter().find(|target| target.value == *value);
    values.iter().map(|value| of(value).map_or(rest, |target| Some(share(target.percent.into())))).collect()
}

/// 1 where nothing is yet, -1 where most is, and evenly between: so that one more allocation always makes a value worse.
fn even_score(used: u32, most: u32) -> f64 {
    if most == 0 { 0.0 } else { 1.0 - 2.0 * f64::from(used) / f64::from(most) }
}

#[cfg(test)]
mod tests {
    use berth_model::constraint::SpreadTarget;

    use super::*;

    fn score(targets: &[(&str, u8)], placed: &[usize]) -> SpreadScore {
        let targets = targets.iter().map(|(v, p)| SpreadTarget { value: (*v).to_owned(), percent: *p });
        let spread =
            Spread { attribute: "${node.datacenter}".to_owned(), weight: 50, targets: targets.collect() };
        let mut score = SpreadScore::new(&spread, 10, 50, &["a", "b", "c"].map(str::to_owned));
        for value in placed {
            score.add(*value);
        }
        score
    }

    #[test]
    fn without_targets_the_emptier_value_is_better() {
        let score = score(&[], &[0, 0, 1]);
        let at = |value| score.score(Some(value));
        assert_eq!([at(0), at(1), at(2)], [-1.0, 0.0, 1.0]);
        assert_eq!(score.score(None), -1.0);
    }

    #[test]
    fn with_targets_the_value_furthest_below_its_share_is_better() {
        let score = score(&[("a", 70), ("b", 30)], &[0, 0, 0]);
        let at = |value| score.score(Some(value));
        assert!(at(1) > at(0));
        assert_eq!(at(2), -1.0);
    }

    #[test]
    fn values_without_a_target_share_what_the_targets_leave() {
        let score = score(&[("a", 60)], &[0]);
        let at = |value| score.score(Some(value));
        assert_eq!([at(0), at(1), at(2)], [4.0 / 6.0, 0.75, 0.75]);
    }

    #[test]
    fn only_a_new_maximum_changes_what_other_values_score() {
        let mut score = score(&[], &[]);
        assert_eq!([0, 1, 0, 1].map(|value| score.add(value)), [true, false, true, false]);
    }
}

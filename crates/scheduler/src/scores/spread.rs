//! Spread: the fewer allocations of the group a value of an attribute has, the better its nodes.

use std::collections::HashMap;

use berth_model::constraint::Spread;

/// Counts of one group's allocations by the values of one attribute, and what they mean for the next one.
///
/// With targets, what counts is how far a value is below its share; without, how far below the fullest value it is.
#[derive(Debug)]
pub struct SpreadScore {
    weight: f64,
    /// Wanted allocations by value; empty for evenly.
    desired: HashMap<String, f64>,
    counts: HashMap<String, u32>,
    /// The highest of these counts.
    most: u32,
}

impl SpreadScore {
    /// The spread of a group of `count` allocations, with none placed yet; `weights` is the sum over all its spreads.
    pub fn new(spread: &Spread, count: u32, weights: u32) -> Self {
        let share = |percent: u8| f64::from(percent) / 100.0 * f64::from(count);
        Self {
            weight: f64::from(spread.weight) / f64::from(weights.max(1)),
            desired: spread.targets.iter().map(|t| (t.value.clone(), share(t.percent))).collect(),
            counts: HashMap::new(),
            most: 0,
        }
    }

    /// An allocation is placed where the attribute has this value.
    pub fn add(&mut self, value: &str) {
        let count = match self.counts.get_mut(value) {
            Some(count) => count,
            None => self.counts.entry(value.to_owned()).or_default(),
        };
        *count += 1;
        self.most = self.most.max(*count);
    }

    /// How good a node with this value is, from -1 to 1; a node without one is worst.
    pub fn score(&self, value: Option<&str>) -> f64 {
        let Some(value) = value else { return -1.0 };
        let used = self.counts.get(value).copied().unwrap_or(0);
        if self.desired.is_empty() {
            return even_score(used, self.most);
        }
        match self.desired.get(value) {
            Some(desired) if *desired > 0.0 => (desired - f64::from(used + 1)) / desired * self.weight,
            _ => -1.0,
        }
    }
}

/// 1 where nothing is yet, -1 where most is, and evenly between: so that one more allocation always makes a value worse.
fn even_score(used: u32, most: u32) -> f64 {
    if most == 0 { 0.0 } else { 1.0 - 2.0 * f64::from(used) / f64::from(most) }
}

#[cfg(test)]
mod tests {
    use berth_model::constraint::SpreadTarget;

    use super::*;

    fn spread(targets: &[(&str, u8)]) -> Spread {
        let targets = targets.iter().map(|(v, p)| SpreadTarget { value: (*v).to_owned(), percent: *p });
        Spread { attribute: "${node.datacenter}".to_owned(), weight: 50, targets: targets.collect() }
    }

    #[test]
    fn without_targets_the_emptier_value_is_better() {
        let mut score = SpreadScore::new(&spread(&[]), 10, 50);
        score.add("a");
        score.add("a");
        score.add("b");
        let at = |value| score.score(Some(value));
        assert!(at("c") > at("b") && at("b") > at("a"));
        assert_eq!(score.score(None), -1.0);
    }

    #[test]
    fn with_targets_the_value_furthest_below_its_share_is_better() {
        let mut score = SpreadScore::new(&spread(&[("a", 70), ("b", 30)]), 10, 50);
        for _ in 0..3 {
            score.add("a");
        }
        let at = |value| score.score(Some(value));
        assert!(at("b") > at("a"));
        assert_eq!(at("c"), -1.0);
    }
}

//! Spread: the fewer allocations of the group a value of an attribute has, the better its nodes.

use std::collections::HashMap;

use berth_model::constraint::Spread;

/// Counts of one group's allocations by the values of one attribute, and what they mean for the next one.
///
/// The scores are those that Nomad documents: with targets, how far a value is below its share; without, how far it is
/// below or above the others.
#[derive(Debug)]
pub struct SpreadScore {
    weight: f64,
    /// Wanted allocations by value; empty for evenly.
    desired: HashMap<String, f64>,
    counts: HashMap<String, u32>,
}

impl SpreadScore {
    /// The spread of a group of `count` allocations, with none placed yet; `weights` is the sum over all its spreads.
    pub fn new(spread: &Spread, count: u32, weights: u32) -> Self {
        let share = |percent: u8| f64::from(percent) / 100.0 * f64::from(count);
        Self {
            weight: f64::from(spread.weight) / f64::from(weights.max(1)),
            desired: spread.targets.iter().map(|t| (t.value.clone(), share(t.percent))).collect(),
            counts: HashMap::new(),
        }
    }

    /// An allocation is placed where the attribute has this value.
    pub fn add(&mut self, value: &str) {
        match self.counts.get_mut(value) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(value.to_owned(), 1)),
        }
    }

    /// The lowest and the highest count there is; what [`Self::score`] compares with.
    pub fn bounds(&self) -> (u32, u32) {
        let counts = self.counts.values();
        (counts.clone().min().copied().unwrap_or(0), counts.max().copied().unwrap_or(0))
    }

    /// How good a node with this value is, from -1 up; a node without one is worst.
    pub fn score(&self, value: Option<&str>, bounds: (u32, u32)) -> f64 {
        let Some(value) = value else { return -1.0 };
        let used = self.counts.get(value).copied().unwrap_or(0);
        if self.desired.is_empty() {
            return even_score(used, bounds, self.counts.is_empty());
        }
        match self.desired.get(value) {
            Some(desired) if *desired > 0.0 => (desired - f64::from(used + 1)) / desired * self.weight,
            _ => -1.0,
        }
    }
}

fn even_score(used: u32, (min, max): (u32, u32), nothing_placed: bool) -> f64 {
    if nothing_placed {
        return 0.0;
    }
    let (used, min, max) = (f64::from(used), f64::from(min), f64::from(max));
    if used == 0.0 {
        return 1.0;
    }
    if used > min {
        return (min - used) / min.max(1.0);
    }
    if min == max { -1.0 } else { (max - min) / min.max(1.0) }
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
        let at = |value| score.score(Some(value), score.bounds());
        assert!(at("c") > at("b") && at("b") > at("a"));
        assert_eq!(score.score(None, score.bounds()), -1.0);
    }

    #[test]
    fn with_targets_the_value_furthest_below_its_share_is_better() {
        let mut score = SpreadScore::new(&spread(&[("a", 70), ("b", 30)]), 10, 50);
        for _ in 0..3 {
            score.add("a");
        }
        let at = |value| score.score(Some(value), score.bounds());
        assert!(at("b") > at("a"));
        assert_eq!(at("c"), -1.0);
    }
}

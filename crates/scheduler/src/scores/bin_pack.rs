//! Packing: the fuller a node would be, the better; or, where a pool is to be spread, the emptier.
//!
//! The formula is Google's "BestFit v3", as Nomad uses it: 20 - (10^free_cpu + 10^free_memory), from 0 to 18. A power of
//! what is left is the power of what is free by that of what is asked, so that a placement costs two divisions.

use berth_model::{resources::Resources, scheduling::Algorithm};

use super::{ScoreKind, ScoreRule};

pub(super) const SCORE: ScoreKind = ScoreKind {
    name: "binpack",
    description: "0 to 1: how full the node would be, or how empty where the scheduler spreads load",
    rule: ScoreRule::Packing,
};

/// 10 to the power of a share of a node's cpu, and of its memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Powers {
    /// 1 for nothing to 10 for all.
    pub cpu: f64,
    /// The same of memory.
    pub memory: f64,
}

impl Powers {
    /// Of an amount of a node's capacity.
    pub fn of(amount: Resources, capacity: Resources) -> Self {
        Self {
            cpu: power(amount.cpu_mhz, capacity.cpu_mhz),
            memory: power(amount.memory_mb, capacity.memory_mb),
        }
    }
}

fn power(amount: u32, capacity: u32) -> f64 {
    if capacity == 0 {
        1.0
    } else {
        (f64::from(amount) / f64::from(capacity) * std::f64::consts::LN_10).exp()
    }
}

/// Scores that differ by less are equal: the same share computed from other numbers differs in its last bits.
const STEP: f64 = 1.0 / (1_u64 << 40) as f64;

/// How good a node is with `free` capacity for an `ask`, both as powers of its capacity: 0 to 1.
pub fn bin_pack(algorithm: Algorithm, free: Powers, ask: Powers) -> f64 {
    (unrounded(algorithm, free, ask) / STEP).round() * STEP
}

/// No node with at most (when spreading) or at least (when packing) that much capacity scores higher.
pub fn bin_pack_bound(algorithm: Algorithm, free: Powers, ask: Powers) -> f64 {
    unrounded(algorithm, free, ask) + 1e-9
}

fn unrounded(algorithm: Algorithm, free: Powers, ask: Powers) -> f64 {
    let left = free.cpu / ask.cpu + free.memory / ask.memory;
    match algorithm {
        Algorithm::BinPack => (20.0 - left) / 18.0,
        Algorithm::Spread => (left - 2.0) / 18.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(algorithm: Algorithm, capacity: Resources, free: Resources, ask: Resources) -> f64 {
        bin_pack(algorithm, Powers::of(free, capacity), Powers::of(ask, capacity))
    }

    const ALL: Resources = Resources { cpu_mhz: 4000, memory_mb: 8000, disk_mb: 0 };
    const HALF: Resources = Resources { cpu_mhz: 2000, memory_mb: 4000, disk_mb: 0 };
    const ASK: Resources = Resources { cpu_mhz: 1000, memory_mb: 1000, disk_mb: 0 };

    #[test]
    fn a_fuller_node_packs_better_and_an_emptier_one_spreads_better() {
        use Algorithm::{BinPack, Spread};
        assert!(score(BinPack, ALL, HALF, ASK) > score(BinPack, ALL, ALL, ASK));
        assert!(score(Spread, ALL, HALF, ASK) < score(Spread, ALL, ALL, ASK));
        assert_eq!((score(BinPack, ALL, ASK, ASK), score(Spread, ALL, ASK, ASK)), (1.0, 0.0));
        let none = Resources::ZERO;
        assert_eq!((score(BinPack, ALL, ALL, none), score(Spread, ALL, ALL, none)), (0.0, 1.0));
    }

    #[test]
    fn the_same_share_of_other_capacities_scores_the_same() {
        let of = |unit: u32| {
            let amount = |n: u32| Resources { cpu_mhz: n * unit, memory_mb: 2 * n * unit, disk_mb: 0 };
            score(Algorithm::BinPack, amount(4000), amount(1234), amount(156))
        };
        for unit in [2, 3, 5, 7, 11, 13] {
            assert_eq!(of(1), of(unit), "{unit}");
        }
    }
}

//! Seeded randomness: what the lab makes up follows from one number, on every machine and in every version.

/// A well-mixed number for each (seed, number): splitmix64, Steele et al. 2014. What is made up for one node or pod can
/// so be made up again without the others.
pub fn mix(seed: u64, number: u64) -> u64 {
    let gamma = 0x9e37_79b9_7f4a_7c15;
    let mut z = seed.wrapping_add(number.wrapping_mul(gamma)).wrapping_add(gamma);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Numbers one after the other.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    number: u64,
}

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, number: 0 }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.number += 1;
        mix(self.seed, self.number)
    }

    /// At least 0 and below 1.
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// A whole number below `limit`; 0 when that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// The index of one of `weights`, each as likely as its weight; none when all are 0.
    pub fn pick(&mut self, weights: impl Iterator<Item = u32> + Clone) -> Option<usize> {
        let total = weights.clone().map(u64::from).sum();
        let mut left = self.below(total);
        weights.enumerate().find_map(|(index, weight)| match left.checked_sub(u64::from(weight)) {
            None => Some(index),
            Some(rest) => {
                left = rest;
                None
            }
        })
    }
}

/// A well-mixed number as one of at least 0 and below 1.
pub fn unit(mixed: u64) -> f64 {
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_met() {
        let (mut random, mut drawn) = (Random::new(7), [0; 3]);
        for _ in 0..10_000 {
            drawn[random.pick([1, 0, 3].into_iter()).expect("a weight")] += 1;
        }
        assert_eq!(drawn[1], 0);
        assert!((2_300..2_700).contains(&drawn[0]), "{drawn:?}");
        assert_eq!(random.pick([0, 0].into_iter()), None);
    }

    #[test]
    fn a_seed_is_a_sequence() {
        let drawn = |seed| {
            let mut random = Random::new(seed);
            [0; 8].map(|_| random.below(10))
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert!(drawn(1).iter().all(|number| *number < 10));
    }
}

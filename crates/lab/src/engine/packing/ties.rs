//! Which of equally good hosts is chosen. It matters: published runs choose the first by name, and with random ties some policies
//! do far worse.

use crate::random::Random;

/// The rule for ties.
#[derive(Debug)]
pub enum TieBreak {
    /// The first by name.
    Name,
    /// Each as likely as the others.
    Random(Random),
}

impl TieBreak {
    /// Random with a seed, else by name.
    pub fn new(seed: Option<u64>) -> Self {
        seed.map_or(Self::Name, |seed| Self::Random(Random::new(seed)))
    }

    /// Whether one more takes the place of the one chosen among `equal` so far.
    pub fn replace(&mut self, equal: u32) -> bool {
        match self {
            Self::Name => false,
            Self::Random(random) => random.below(u64::from(equal) + 1) == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_four_is_taken_as_often() {
        let mut ties = TieBreak::new(Some(5));
        let mut taken = [0; 4];
        for _ in 0..8_000 {
            let last = (1..4).filter(|equal| ties.replace(*equal)).last();
            taken[last.unwrap_or(0) as usize] += 1;
        }
        assert!(taken.iter().all(|times| (1_800..2_200).contains(times)), "{taken:?}");
        assert!(!TieBreak::new(None).replace(1));
    }
}

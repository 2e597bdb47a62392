//! Which names of a group are taken.

use std::collections::BTreeSet;

use berth_model::job::GROUP_COUNT_MAX;

/// Names up to here take a bit each. Allocations have the lowest names that were free, so that hardly any is above.
const LOW_MAX: u32 = 2 * GROUP_COUNT_MAX;
const WORD_BITS: u32 = u64::BITS;

/// A set of names.
#[derive(Debug, Default)]
pub(super) struct Names {
    low: Vec<u64>,
    high: BTreeSet<u32>,
}

impl Names {
    pub(super) fn insert(&mut self, name: u32) {
        if name >= LOW_MAX {
            self.high.insert(name);
            return;
        }
        let word = (name / WORD_BITS) as usize;
        if self.low.len() <= word {
            self.low.resize(word + 1, 0);
        }
        self.low[word] |= 1 << (name % WORD_BITS);
    }

    pub(super) fn contains(&self, name: u32) -> bool {
        let word = |at: u32| self.low.get(at as usize).copied().unwrap_or_default();
        word(name / WORD_BITS) >> (name % WORD_BITS) & 1 == 1 || name >= LOW_MAX && self.high.contains(&name)
    }

    /// The names that are not taken, the lowest first.
    pub(super) fn free(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).filter(|name| !self.contains(*name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_once_it_is_there() {
        let all = [0, 1, 3, 63, 64, 200, LOW_MAX - 1, LOW_MAX, LOW_MAX + 1, u32::MAX];
        let mut names = Names::default();
        for (at, name) in all.into_iter().enumerate() {
            assert!(!names.contains(name));
            names.insert(name);
            assert!(all[..=at].iter().all(|name| names.contains(*name)));
        }
        assert_eq!(names.free().take(3).collect::<Vec<_>>(), [2, 4, 5]);
        assert!(!names.contains(LOW_MAX + 2) && !names.contains(65) && !names.contains(LOW_MAX - 2));
    }
}

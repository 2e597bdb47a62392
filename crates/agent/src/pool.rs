//! A pool of numbers, each with one holder at a time.

use std::collections::BTreeSet;
use std::ops::Range;

/// The free numbers. One that was released is reused last: its former holder may still be contacted under it.
#[derive(Debug)]
pub(crate) struct Pool {
    range: Range<u32>,
    used: BTreeSet<u32>,
    /// Where the next is looked for.
    next: u32,
}

impl Pool {
    pub(crate) fn new(range: Range<u32>) -> Self {
        Self { next: range.start, range, used: BTreeSet::new() }
    }

    /// False if it is used or none of the pool's, which may have changed.
    pub(crate) fn take(&mut self, number: u32) -> bool {
        self.next = self.next.max(number.saturating_add(1));
        self.range.contains(&number) && self.used.insert(number)
    }

    pub(crate) fn next(&mut self) -> Option<u32> {
        let Range { start, end } = self.range;
        let after = self.next.clamp(start, end);
        let free = (after..end).chain(start..after).find(|number| !self.used.contains(number))?;
        self.next = free + 1;
        self.used.insert(free);
        Some(free)
    }

    pub(crate) fn release(&mut self, number: u32) {
        self.used.remove(&number);
    }

    /// How many are used.
    pub(crate) fn used(&self) -> usize {
        self.used.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_gives_each_number_once_and_the_freed_one_last() {
        let mut pool = Pool::new(2..7);
        assert!(pool.take(3) && !pool.take(3) && !pool.take(0) && !pool.take(7) && !pool.take(900));
        let mut pool = Pool::new(2..7);
        assert!(pool.take(3));
        assert_eq!([4, 5, 6].map(Some), [pool.next(), pool.next(), pool.next()]);
        pool.release(5);
        assert_eq!([Some(2), Some(5), None], [pool.next(), pool.next(), pool.next()]);
        assert_eq!(pool.used(), 5);
    }
}

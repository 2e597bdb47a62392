//! What a snapshot is read from: blocks, which are summed up as they are used up. A record is read where it lies.

use std::io::Read;

use xxhash_rust::xxh3::Xxh3;

use super::SnapshotError;

/// Read at once, in bytes.
const BLOCK_BYTES: usize = 256 << 10;

/// Bytes that come, and the sum of those that were taken.
pub(super) struct HashedReader<R> {
    from: R,
    block: Vec<u8>,
    /// Of the block, what was taken, and of that what is in the sum.
    taken: usize,
    summed: usize,
    sum: Xxh3,
}

impl<R: Read> HashedReader<R> {
    pub fn new(from: R) -> Self {
        Self { from, block: Vec::new(), taken: 0, summed: 0, sum: Xxh3::new() }
    }

    /// The next bytes, so many.
    ///
    /// # Errors
    /// When there are fewer, or reading fails.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&[u8], SnapshotError> {
        if self.block.len() - self.taken < len {
            self.fill(len)?;
        }
        let from = self.taken;
        self.taken += len;
        Ok(&self.block[from..self.taken])
    }

    /// The next bytes, as many as an array has.
    ///
    /// # Errors
    /// As [`Self::take`].
    #[inline]
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        Ok(self.take(N)?.try_into().expect("as many as were asked for"))
    }

    /// The sum of all that was taken.
    pub fn sum(&mut self) -> u128 {
        self.sum_up();
        self.sum.digest128()
    }

    /// Whether nothing follows what was taken.
    ///
    /// # Errors
    /// When reading fails.
    pub fn is_at_end(&mut self) -> Result<bool, SnapshotError> {
        match self.fill(1) {
            Ok(()) => Ok(false),
            Err(SnapshotError::Short) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads on until so many bytes can be taken. Capacity is made for what has come, whatever was asked for.
    #[cold]
    fn fill(&mut self, len: usize) -> Result<(), SnapshotError> {
        self.sum_up();
        self.block.drain(..self.taken);
        (self.taken, self.summed) = (0, 0);
        let more = len.max(BLOCK_BYTES).saturating_sub(self.block.len());
        self.from.by_ref().take(more as u64).read_to_end(&mut self.block)?;
        if self.block.len() < len { Err(SnapshotError::Short) } else { Ok(()) }
    }

    fn sum_up(&mut self) {
        self.sum.update(&self.block[self.summed..self.taken]);
        self.summed = self.taken;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_128;

    use super::*;

    /// Gives a few bytes at a time, as a network does.
    struct Few<'a>(&'a [u8], usize);

    impl Read for Few<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let len = self.1.min(into.len()).min(self.0.len());
            let (now, later) = self.0.split_at(len);
            into[..len].copy_from_slice(now);
            self.0 = later;
            Ok(len)
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_was_there_and_is_summed(
            sizes in prop::collection::vec(prop_oneof![0..40_usize, 0..700_000_usize], 1..12),
            at_once in 1..300_000_usize,
        ) {
            let all: Vec<u8> = (0..sizes.iter().sum::<usize>()).map(|at| ((at * 31) >> 3) as u8).collect();
            let mut input = HashedReader::new(Few(&all, at_once));
            let mut rest = &all[..];
            for size in sizes {
                let (now, later) = rest.split_at(size);
                prop_assert!(input.take(size).expect("it is there") == now);
                rest = later;
                prop_assert_eq!(input.sum(), xxh3_128(&all[..all.len() - rest.len()]));
            }
            prop_assert!(matches!(input.take(1), Err(SnapshotError::Short)));
            prop_assert!(input.is_at_end().expect("it can be read"));
        }
    }
}

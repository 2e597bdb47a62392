//! A range of a source text.

use std::ops::Range;

/// Bytes from `start` up to `end`; 32 bits suffice for [`crate::SOURCE_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        let offset = |at| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: offset(start), end: offset(end) }
    }

    pub fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end }
    }

    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

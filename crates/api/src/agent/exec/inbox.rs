//! A receive buffer of one stream with flow control.

use bytes::{Bytes, BytesMut};

/// Holds no more than its window, in whatever pieces the bytes come: many small ones take no more memory than a large one.
#[derive(Debug)]
pub struct Inbox {
    bytes: BytesMut,
    /// Bytes that may still come.
    credit: usize,
}

/// The writer sent more than it was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more was sent than was allowed")]
pub struct Overrun;

impl Inbox {
    /// An empty one, whose writer has been allowed `credit` bytes.
    pub fn new(credit: usize) -> Self {
        Self { bytes: BytesMut::new(), credit }
    }

    /// Takes in what has come.
    ///
    /// # Errors
    /// When it is more than was allowed; nothing of it is kept.
    pub fn push(&mut self, data: &[u8]) -> Result<(), Overrun> {
        self.credit = self.credit.checked_sub(data.len()).ok_or(Overrun)?;
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Hands out at most `bytes_max` bytes; none when there are none. The writer may be allowed as many more once they
    /// are dealt with: [`Self::allow`].
    pub fn take(&mut self, bytes_max: usize) -> Option<Bytes> {
        let len = self.bytes.len().min(bytes_max);
        (len > 0).then(|| self.bytes.split_to(len).freeze())
    }

    /// The writer is allowed so many bytes more.
    pub fn allow(&mut self, bytes: usize) {
        self.credit += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_held_to_its_window() {
        let mut inbox = Inbox::new(4);
        assert_eq!(inbox.push(b"abc"), Ok(()));
        assert_eq!(inbox.push(b"de"), Err(Overrun));
        assert_eq!(inbox.take(2).as_deref(), Some(&b"ab"[..]));
        inbox.allow(2);
        assert_eq!(inbox.push(b"def"), Ok(()));
        assert_eq!(inbox.take(9).as_deref(), Some(&b"cdef"[..]));
        assert_eq!((inbox.take(9), inbox.push(b"x")), (None, Err(Overrun)));
    }

    #[test]
    fn small_pieces_take_no_more_memory_than_a_large_one() {
        let mut inbox = Inbox::new(1 << 16);
        (0..1 << 16).for_each(|_| inbox.push(b"x").expect("allowed"));
        assert!(inbox.bytes.capacity() <= 1 << 17);
        assert_eq!(inbox.take(usize::MAX).map(|bytes| bytes.len()), Some(1 << 16));
    }
}

//! Where values are encoded: bytes in memory that a thread uses again and again.

use std::{cell::Cell, convert::Infallible};

use minicbor::encode::Write;

/// Room that a buffer begins with, in bytes: enough for most records.
const FIRST_BYTES: usize = 4 << 10;
/// A larger buffer is not kept for the next value, in bytes.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Bytes that are written one after the other. An encoding is made of many writes of a few bytes each: they go into room that
/// is there, without a call.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// What is written, and room behind it.
    room: Vec<u8>,
    len: usize,
}

impl Buffer {
    fn written(&self) -> &[u8] {
        &self.room[..self.len]
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let needed = self.len + more;
        self.room.resize(needed.max(2 * self.room.len()).max(FIRST_BYTES), 0);
    }
}

impl Write for Buffer {
    type Error = Infallible;

    #[inline(always)]
    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        if self.room.len() - self.len < bytes.len() {
            self.grow(bytes.len());
        }
        let end = self.len + bytes.len();
        self.room[self.len..end].copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }
}

thread_local! {
    static KEPT: Cell<Buffer> = const { Cell::new(Buffer { room: Vec::new(), len: 0 }) };
}

/// What `write` writes, given to `read`.
pub(crate) fn encoded<R>(write: impl FnOnce(&mut Buffer), read: impl FnOnce(&[u8]) -> R) -> R {
    // One that is encoded meanwhile on this thread finds an empty one.
    let mut buffer = KEPT.take();
    buffer.len = 0;
    write(&mut buffer);
    let answer = read(buffer.written());
    if buffer.room.len() <= KEPT_BYTES_MAX {
        KEPT.set(buffer);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(parts: &[&[u8]]) -> Vec<u8> {
        let write = |buffer: &mut Buffer| parts.iter().for_each(|part| buffer.write_all(part).unwrap());
        encoded(write, <[u8]>::to_vec)
    }

    #[test]
    fn what_is_written_is_read_however_long_and_nothing_of_what_was_before() {
        let long = vec![7; KEPT_BYTES_MAX];
        for parts in [&[&b"one"[..], b"", b"two"][..], &[b"a", &long, b"b"], &[], &[b"z"]] {
            assert_eq!(bytes_of(parts), parts.concat());
        }
    }

    #[test]
    fn a_value_within_another_is_encoded_beside_it() {
        let both = encoded(
            |outer| {
                outer.write_all(b"<").unwrap();
                let inner = bytes_of(&[b"inner"]);
                outer.write_all(&inner).unwrap();
                outer.write_all(b">").unwrap();
            },
            <[u8]>::to_vec,
        );
        assert_eq!(both, b"<inner>");
    }
}

//! A buffer for JSON text. serde writes pieces of a few bytes, most of constant length: with an inlined bounds check each costs a
//! store or two. `Vec`'s own writer took a fifth of the time of lists and event streams.

use std::io::{self, Write};

use bytes::Bytes;
use serde::Serialize;

/// Smallest capacity of a buffer that is not empty.
const CAPACITY_MIN: usize = 128;

/// A text that grows at its end.
#[derive(Debug, Default)]
pub(crate) struct JsonText {
    /// The text, and zeros in the capacity behind it.
    buffer: Vec<u8>,
    len: usize,
}

impl JsonText {
    /// An empty one with a capacity of so many bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { buffer: vec![0; capacity], len: 0 }
    }

    /// Its bytes so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The text written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Adds text that is JSON already.
    #[inline(always)]
    pub fn push(&mut self, text: &[u8]) {
        let end = self.len + text.len();
        match self.buffer.get_mut(self.len..end) {
            Some(buffer) => buffer.copy_from_slice(text),
            None => self.grow_and_push(text),
        }
        self.len = end;
    }

    #[cold]
    #[inline(never)]
    fn grow_and_push(&mut self, text: &[u8]) {
        let end = self.len + text.len();
        self.buffer.resize(end.max(2 * self.buffer.len()).max(CAPACITY_MIN), 0);
        self.buffer[self.len..end].copy_from_slice(text);
    }

    /// Adds a value; on one that cannot be written nothing is added, and the error says why.
    pub fn add(&mut self, value: &impl Serialize, pretty: bool) -> serde_json::Result<()> {
        let before = self.len;
        let outcome = match pretty {
            true => serde_json::to_writer_pretty(&mut *self, value),
            false => serde_json::to_writer(&mut *self, value),
        };
        if outcome.is_err() {
            self.len = before;
        }
        outcome
    }

    /// The text as it is.
    pub fn into_bytes(mut self) -> Bytes {
        self.buffer.truncate(self.len);
        self.buffer.into()
    }
}

impl Write for JsonText {
    #[inline(always)]
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.push(text);
        Ok(text.len())
    }

    #[inline(always)]
    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        self.push(text);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_written_is_what_serde_json_makes_whatever_room_there_was() {
        let value: Vec<String> = (0..200).map(|number| "x\"é".repeat(number)).collect();
        for pretty in [false, true] {
            let expected =
                if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
            for capacity in [0, 1, 100, 1 << 20] {
                let mut text = JsonText::with_capacity(capacity);
                text.add(&value, pretty).unwrap();
                assert_eq!(text.len(), expected.as_ref().unwrap().len());
                assert_eq!(text.into_bytes(), expected.as_ref().unwrap());
            }
        }
    }

    #[test]
    fn of_a_value_that_cannot_be_written_nothing_is_left() {
        let mut text = JsonText::default();
        text.push(b"[");
        let keyed_by_list = BTreeMap::from([(vec![1], 2)]);
        assert!(text.add(&(1, &keyed_by_list), false).is_err());
        text.push(b"]");
        assert_eq!(text.into_bytes(), "[]");
    }
}

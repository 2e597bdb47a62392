//! The hash of a table's content, kept in step with each change: equal content, equal hash, in whatever order it came.

use minicbor::encode::Write;
use xxhash_rust::xxh3::xxh3_128;

use crate::codec::{Buffer, encoded};

/// The sum modulo 2^128 of the hashes of a table's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableDigest(u128);

impl TableDigest {
    /// Takes a record in.
    pub fn add(&mut self, record: u128) {
        self.0 = self.0.wrapping_add(record);
    }

    /// Takes a record out.
    pub fn remove(&mut self, record: u128) {
        self.0 = self.0.wrapping_sub(record);
    }

    /// The hash of all records.
    pub fn value(self) -> u128 {
        self.0
    }
}

/// The hash of a record that has an encoding.
pub fn hash_encoded<T: minicbor::Encode<()>>(kind: u8, record: &T) -> u128 {
    let write = |buffer: &mut Buffer| {
        buffer.write_all(&[kind]).expect("writing to memory does not fail");
        minicbor::encode(record, buffer).expect("encoding to memory does not fail");
    };
    encoded(write, xxh3_128)
}

/// The same of a record whose encoding is these parts.
pub fn hash_parts<const N: usize>(kind: u8, parts: [&[u8]; N]) -> u128 {
    let write = |buffer: &mut Buffer| {
        buffer.write_all(&[kind]).expect("writing to memory does not fail");
        parts.iter().for_each(|part| buffer.write_all(part).expect("writing to memory does not fail"));
    };
    encoded(write, xxh3_128)
}

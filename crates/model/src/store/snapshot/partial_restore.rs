//! A snapshot that comes in parts, cut anywhere.

use super::{SnapshotError, StoreBuilder, record_bytes};
use crate::store::Store;

/// Bytes that say how long a record is.
const PREFIX_BYTES: usize = 4;

/// What has come so far.
#[derive(Debug, Clone, Default)]
pub struct PartialRestore {
    /// Parts taken in.
    count: u32,
    builder: StoreBuilder,
    /// The beginning of a record whose end is still to come.
    rest: Vec<u8>,
}

impl PartialRestore {
    /// The number of the part to come.
    pub fn next(&self) -> u32 {
        self.count
    }

    /// Takes in the next part of what [`write_records`](super::write_records) writes; the store, once it is complete.
    ///
    /// # Errors
    /// When this is not what was written.
    pub fn add(&mut self, part: &[u8]) -> Result<Option<Store>, SnapshotError> {
        self.count += 1;
        self.rest.extend_from_slice(part);
        let mut bytes = &self.rest[..];
        while let Some((prefix, after)) = bytes.split_first_chunk::<PREFIX_BYTES>() {
            let Some((record, after)) = after.split_at_checked(record_bytes(*prefix)?) else { break };
            if let Some(store) = self.builder.read(record)? {
                return Ok(Some(store));
            }
            bytes = after;
        }
        self.rest = bytes.to_vec();
        self.builder.index()?;
        Ok(None)
    }
}

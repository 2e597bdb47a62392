//! Entries of the log: commands that arrived together, with their index, time and version.

use minicbor::{Decode, Encode, encode::Write};

use super::Command;
use crate::{
    codec::{Buffer, encoded},
    ids::Index,
    time::Timestamp,
};

/// The encoding that [`Entry::encode`] writes; it counts every change of a command, field or value, and of what applying
/// them comes to. All before it are read, and applied as they were when they were written.
pub const ENTRY_VERSION: u8 = 8;
/// The oldest version that can still be written: for as long as a server of the cluster knows no newer one.
pub const ENTRY_VERSION_MIN: u8 = 3;
/// Largest encoded entry that may be proposed.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// One entry of the log: everything that arrived while the last one was being written.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Entry {
    /// Its position in the one order of changes; greater than that of every entry before it.
    #[n(0)]
    pub index: Index,
    /// When it was proposed; never before the last entry's time.
    #[n(1)]
    pub at: Timestamp,
    /// Applied in order.
    #[n(2)]
    pub commands: Vec<Command>,
    /// The version of Berth's entries under which it was written, which says how it is applied. It stands before the
    /// entry.
    #[cbor(skip)]
    pub version: u8,
}

/// A log entry that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// Written by a newer Berth.
    #[error(
        "log entry has version {version}, this server knows up to {known}: start the newer version again"
    )]
    Version {
        /// Under which it was written.
        version: u8,
        /// The newest that is known here.
        known: u8,
    },
    /// Not what [`Entry::encode`] writes.
    #[error("decode log entry of version {version}, this server knows up to {ENTRY_VERSION}: {source}")]
    Decode {
        /// Under which it was written.
        version: u8,
        /// What is wrong with it.
        source: minicbor::decode::Error,
    },
    /// Nothing there.
    #[error("log entry is empty")]
    Empty,
}

impl Entry {
    /// An entry of today's version.
    pub fn new(index: Index, at: Timestamp, commands: Vec<Command>) -> Self {
        Self { index, at, commands, version: ENTRY_VERSION }
    }

    /// The same of another version, which must know its commands.
    pub fn of_version(self, version: u8) -> Self {
        Self { version, ..self }
    }

    /// The oldest version that can be written and knows all of some commands.
    pub fn version_for<'c>(commands: impl IntoIterator<Item = &'c Command>) -> u8 {
        commands.into_iter().map(Command::since).max().unwrap_or(ENTRY_VERSION_MIN)
    }

    /// The entry's bytes in the log: its version and CBOR.
    pub fn encode(&self) -> Vec<u8> {
        let write = |buffer: &mut Buffer| {
            buffer.write_all(&[self.version]).expect("writing to memory does not fail");
            minicbor::encode(self, buffer).expect("encoding to memory does not fail");
        };
        encoded(write, <[u8]>::to_vec)
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are of a newer version, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, EntryError> {
        Self::decode_up_to(bytes, ENTRY_VERSION)
    }

    /// The same as a server that knows versions up to `known`, and none that is newer than this one's.
    ///
    /// # Errors
    /// When the bytes are of a newer version, or damaged.
    pub fn decode_up_to(bytes: &[u8], known: u8) -> Result<Self, EntryError> {
        let known = known.min(ENTRY_VERSION);
        match bytes.split_first() {
            None => Err(EntryError::Empty),
            Some((&version, body)) if (1..=known).contains(&version) => {
                let entry: Self =
                    minicbor::decode(body).map_err(|source| EntryError::Decode { version, source })?;
                Ok(Self { version, ..entry })
            }
            Some((&version, _)) => Err(EntryError::Version { version, known }),
        }
    }
}

//! A file of the log: its name, and the header that says where it belongs.

use std::path::{Path, PathBuf};

use super::record::{ALIGN_BYTES, u32_at, u64_at};
use crate::types::{LogId, log_id, term_of};

/// Of a segment's header; records follow.
pub(crate) const SEGMENT_HEADER_BYTES: usize = ALIGN_BYTES;

const MAGIC: [u8; 8] = *b"BERTHLOG";
const VERSION: u8 = 1;
const CRC_AT: usize = 60;

/// What a segment says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Of its first record.
    pub first: u64,
    /// The record before that one, in the segment before or covered by a snapshot.
    pub previous: Option<LogId>,
    /// Whether the log begins here anew because a snapshot has covered all that came before.
    pub anew: bool,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8] = VERSION;
        out[9] = self.anew.into();
        out[10] = self.previous.is_some().into();
        out[16..24].copy_from_slice(&self.first.to_le_bytes());
        out[24..32].copy_from_slice(&self.previous.map_or(0, |id| term_of(&id)).to_le_bytes());
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; SEGMENT_HEADER_BYTES] = bytes.first_chunk().ok_or("its header is cut short")?;
        if bytes[..8] != MAGIC {
            return Err("it is not a segment of a log");
        }
        if u32_at(bytes, CRC_AT) != crc32c::crc32c(&bytes[..CRC_AT]) {
            return Err("the checksum of its header does not match");
        }
        if bytes[8] != VERSION {
            return Err("it was written by a newer version");
        }
        let (first, term) = (u64_at(bytes, 16), u64_at(bytes, 24));
        let previous = (bytes[10] == 1).then(|| log_id(term, first.saturating_sub(1)));
        Ok(Self { first, previous, anew: bytes[9] == 1 })
    }
}

/// Where the segment that begins with record `first` lies.
pub(crate) fn path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.log"))
}

/// The first record of the segment with this file name; none for another file.
pub(crate) fn first_of(name: &str) -> Option<u64> {
    name.strip_suffix(".log").filter(|digits| digits.len() == 20)?.parse().ok()
}

//! A file of the log: its name, and the header that says where it belongs.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::record::{ALIGN_BYTES, u32_at, u64_at};
use crate::{
    disk::{Disk, DiskFile},
    types::{LogId, log_id, term_of},
};

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
    /// Whether the log begins here again because a snapshot has covered all that came before.
    pub anew: bool,
    /// How long the file was made before anything was written to it, in bytes: it never becomes shorter. 0 in segments of
    /// earlier versions, which say nothing of it.
    pub made_bytes: u64,
}

impl SegmentHeader {
    /// Of a segment that begins behind a record; how long it was made is known once it is begun.
    pub fn after(previous: Option<LogId>, anew: bool) -> Self {
        Self { first: previous.map_or(0, |id| id.index() + 1), previous, anew, made_bytes: 0 }
    }

    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8] = VERSION;
        out[9] = self.anew.into();
        out[10] = self.previous.is_some().into();
        out[16..24].copy_from_slice(&self.first.to_le_bytes());
        out[24..32].copy_from_slice(&self.previous.map_or(0, |id| term_of(&id)).to_le_bytes());
        out[32..40].copy_from_slice(&self.made_bytes.to_le_bytes());
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
        Ok(Self { first, previous, anew: bytes[9] == 1, made_bytes: u64_at(bytes, 32) })
    }

    /// Checks that nothing of the file is cut off. A crash tears writes; it does not shorten a file whose length was synced
    /// before its first record, so records that are missing at its end may have been acknowledged.
    pub fn check_length(&self, bytes: u64) -> Result<(), String> {
        if bytes >= self.made_bytes {
            return Ok(());
        }
        Err(format!("it is cut short: it has {bytes} bytes and was made with {}", self.made_bytes))
    }
}

/// Makes a file of the log's directory a segment: its header and its length are durable before it gets its name, and its
/// name is when this returns.
pub(crate) fn begin(
    disk: &dyn Disk,
    dir: &Path,
    prepared: &Path,
    header: SegmentHeader,
) -> io::Result<Box<dyn DiskFile>> {
    let header = SegmentHeader { made_bytes: disk.len(prepared)?, ..header };
    let mut file = disk.open(prepared)?;
    file.write_at(&header.encode(), 0)?;
    file.sync()?;
    disk.rename(prepared, &path(dir, header.first))?;
    disk.sync_dir(dir)?;
    Ok(file)
}

/// Where the segment that begins with record `first` lies.
pub(crate) fn path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.log"))
}

/// The first record of the segment with this file name; none for another file.
pub(crate) fn first_of(name: &str) -> Option<u64> {
    name.strip_suffix(".log").filter(|digits| digits.len() == 20)?.parse().ok()
}

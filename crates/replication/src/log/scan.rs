//! Reads a segment from its first record to its end, and distinguishes three ends: nothing more was written, a write was
//! torn by a crash, or something that was there is damaged.

use super::record::{self, ALIGN_BYTES, HEADER_BYTES, RecordHeader};

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A segment's whole records.
#[derive(Debug, Default)]
pub(crate) struct ScannedSegment {
    /// Each with where it begins.
    pub records: Vec<(RecordHeader, usize)>,
    /// Where the next record goes.
    pub end: usize,
    /// A write that never finished lies behind the end.
    pub torn: bool,
}

/// A record that is not what was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// Of the record that should be there.
    pub index: u64,
    /// Offset in the file, in bytes.
    pub offset: usize,
    /// What is wrong.
    pub what: String,
}

/// Reads the records in `bytes` from `start` on; the first must have the index `first`.
///
/// # Errors
/// When a record that had been written whole is damaged.
pub(crate) fn scan(bytes: &[u8], start: usize, first: u64) -> Result<ScannedSegment, Flaw> {
    let mut scanned = ScannedSegment { end: start, ..ScannedSegment::default() };
    let mut next = first;
    while !is_zero(&bytes[scanned.end.min(bytes.len())..]) {
        let offset = scanned.end;
        let flaw = |what: &str| Flaw { index: next, offset, what: what.to_owned() };
        match read(&bytes[offset..]) {
            Ok(header) if header.index != next => {
                return Err(flaw(&format!("record {} is in its place", header.index)));
            }
            Ok(header) if scanned.records.last().is_some_and(|(last, _)| header.term < last.term) => {
                return Err(flaw("its term is older than that of the record before it"));
            }
            Ok(header) => {
                scanned.end += header.record_bytes();
                scanned.records.push((header, offset));
                next += 1;
            }
            Err(_) if is_torn(bytes, offset, next) => {
                scanned.torn = true;
                return Ok(scanned);
            }
            Err(what) => return Err(flaw(what)),
        }
    }
    Ok(scanned)
}

fn read(bytes: &[u8]) -> Result<RecordHeader, &'static str> {
    let header = RecordHeader::decode(bytes)?;
    record::check_payload(&header, bytes)?;
    Ok(header)
}

/// Whether the bad record at `offset` was never wholly written. It was not if the file ends in it or a sector of it is
/// all zeros, as segments are before they are written; unless a later record knows that it had been synced.
fn is_torn(bytes: &[u8], offset: usize, index: u64) -> bool {
    let record = &bytes[offset..];
    let extent = RecordHeader::decode(record).map_or(HEADER_BYTES, |header| header.record_bytes());
    let unwritten =
        extent > record.len() || sectors(offset, offset + extent).any(|(a, b)| is_zero(&bytes[a..b]));
    unwritten && !is_known_durable(&bytes[offset..], index)
}

fn is_known_durable(bytes: &[u8], index: u64) -> bool {
    let later = bytes.chunks_exact(ALIGN_BYTES).skip(1);
    later.filter_map(|chunk| RecordHeader::decode(chunk).ok()).any(|header| header.durable > index)
}

/// The parts of a range that lie in one sector each.
fn sectors(from: usize, to: usize) -> impl Iterator<Item = (usize, usize)> {
    let cuts = (from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES)).map(|sector| sector * SECTOR_BYTES);
    cuts.map(move |cut| (cut.max(from), (cut + SECTOR_BYTES).min(to)))
}

fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|chunk| chunk == &ZEROS[..chunk.len()])
}

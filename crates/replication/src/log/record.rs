//! One record of the log as bytes.
//!
//! ```text
//!  0  magic "BREC"         16  index u64            48  zero
//!  4  version u8           24  term u64             60  crc32c of bytes 0..60
//!  5  kind u8              32  durable u64          64  payload, then 1 to 64 bytes of FILL
//!  6  zero u16             40  committed u64
//!  8  payload bytes u32    12  crc32c of payload and fill
//! ```
//!
//! Numbers are little-endian. Records begin at multiples of 64 bytes, so that a header never spans two sectors: it is
//! on disk whole or not at all. The fill ends a record with something that is not zero, which distinguishes a sector that was
//! never written from one that was. `durable` is how far the log was known to be synced when the record was made; a
//! bad record that a later one calls durable is damage, never a torn write.

use bytes::Bytes;
use openraft::EntryPayload;

use crate::{
    membership::EncodedMembers,
    types::{LogEntry, LogId, Payload, Proposal, log_id, term_of},
};

/// Where records begin: at multiples of this.
pub(crate) const ALIGN_BYTES: usize = 64;
/// A record without payload.
pub(crate) const HEADER_BYTES: usize = ALIGN_BYTES;
/// Largest payload: an entry of the model, and a MiB to spare.
const PAYLOAD_BYTES_MAX: usize = berth_model::command::ENTRY_BYTES_MAX + (1 << 20);

const MAGIC: [u8; 4] = *b"BREC";
const VERSION: u8 = 1;
const FILL: u8 = 0xa5;
const CRC_AT: usize = 60;

const KIND_BLANK: u8 = 1;
const KIND_ENTRY: u8 = 2;
const KIND_MEMBERSHIP: u8 = 3;

/// What a record says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// What the payload is.
    pub kind: u8,
    /// Without the fill.
    pub payload_bytes: u32,
    /// Of the payload and the fill.
    pub payload_crc: u32,
    /// Its position in the log.
    pub index: u64,
    /// Of the leader that made it.
    pub term: u64,
    /// One more than the last index that was known to be synced; 0 for none.
    pub durable: u64,
    /// One more than the last index that was known to be committed; 0 for none.
    pub committed: u64,
}

impl RecordHeader {
    /// The record's name.
    pub fn log_id(&self) -> LogId {
        log_id(self.term, self.index)
    }

    /// Of the whole record.
    pub fn record_bytes(&self) -> usize {
        record_bytes(self.payload_bytes as usize)
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = self.kind;
        out[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        out[12..16].copy_from_slice(&self.payload_crc.to_le_bytes());
        for (at, number) in [(16, self.index), (24, self.term), (32, self.durable), (40, self.committed)] {
            out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header at the beginning of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or("its header is cut short")?;
        if bytes[..4] != MAGIC {
            return Err("its header has no magic number");
        }
        if u32_at(bytes, CRC_AT) != crc32c::crc32c(&bytes[..CRC_AT]) {
            return Err("the checksum of its header does not match");
        }
        if bytes[4] != VERSION {
            return Err("it was written by a newer version");
        }
        let header = Self {
            kind: bytes[5],
            payload_bytes: u32_at(bytes, 8),
            payload_crc: u32_at(bytes, 12),
            index: u64_at(bytes, 16),
            term: u64_at(bytes, 24),
            durable: u64_at(bytes, 32),
            committed: u64_at(bytes, 40),
        };
        if header.payload_bytes as usize > PAYLOAD_BYTES_MAX { Err("it is too large") } else { Ok(header) }
    }
}

/// What is written beside an entry.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    /// See [`RecordHeader::durable`].
    pub durable: u64,
    /// See [`RecordHeader::committed`].
    pub committed: u64,
}

/// Appends an entry's record to `out` and returns its header.
pub(crate) fn encode(entry: &LogEntry, marks: Marks, out: &mut Vec<u8>) -> RecordHeader {
    let (kind, payload) = match &entry.payload {
        EntryPayload::Blank => (KIND_BLANK, Bytes::new()),
        EntryPayload::Normal(proposal) => (KIND_ENTRY, proposal.bytes().clone()),
        EntryPayload::Membership(membership) => {
            let members =
                minicbor::to_vec(EncodedMembers::of(membership)).expect("encoding to memory does not fail");
            (KIND_MEMBERSHIP, members.into())
        }
    };
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    out.extend_from_slice(&payload);
    out.resize(start + record_bytes(payload.len()), FILL);
    let header = RecordHeader {
        kind,
        payload_bytes: u32::try_from(payload.len()).expect("entries are at most 1 MiB"),
        payload_crc: crc32c::crc32c(&out[start + HEADER_BYTES..]),
        index: entry.log_id.index(),
        term: term_of(&entry.log_id),
        durable: marks.durable,
        committed: marks.committed,
    };
    out[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
    header
}

/// Whether the record that `header` announces is whole; `bytes` begin with the header.
pub(crate) fn check_payload(header: &RecordHeader, bytes: &[u8]) -> Result<(), &'static str> {
    let payload = bytes.get(HEADER_BYTES..header.record_bytes()).ok_or("it is cut short")?;
    if crc32c::crc32c(payload) == header.payload_crc {
        Ok(())
    } else {
        Err("the checksum of its payload does not match")
    }
}

/// The entry in the record at the beginning of `bytes`, and the record's length.
pub(crate) fn decode(bytes: &Bytes) -> Result<(LogEntry, usize), String> {
    let header = RecordHeader::decode(bytes)?;
    check_payload(&header, bytes)?;
    let payload = bytes.slice(HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize);
    let entry = LogEntry { log_id: header.log_id(), payload: decode_payload(header.kind, payload)? };
    Ok((entry, header.record_bytes()))
}

fn decode_payload(kind: u8, payload: Bytes) -> Result<Payload, String> {
    match kind {
        KIND_BLANK => Ok(EntryPayload::Blank),
        KIND_ENTRY => Ok(EntryPayload::Normal(Proposal::from_bytes(payload))),
        KIND_MEMBERSHIP => {
            let members: EncodedMembers = minicbor::decode(&payload).map_err(|error| error.to_string())?;
            Ok(EntryPayload::Membership(members.into_membership()?))
        }
        kind => Err(format!("it is of unknown kind {kind}")),
    }
}

/// Of a record with such a payload: nothing but a header, or a header, the payload and at least one byte of fill.
fn record_bytes(payload: usize) -> usize {
    if payload == 0 { HEADER_BYTES } else { HEADER_BYTES + (payload + 1).next_multiple_of(ALIGN_BYTES) }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

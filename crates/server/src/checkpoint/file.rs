//! The format of one checkpoint file.

use std::sync::Arc;

use berth_controller::{NodeCheckpoint, ReportVersion};
use berth_model::{Index, NodeId, observed::ObservedAlloc};
use minicbor::{Decoder, Encoder};

use super::{FILE_BYTES_MAX, FILES, NODE_BYTES_MAX};

const MAGIC: [u8; 8] = *b"BERTHOBS";
/// Of the format, and of how observations are written in it.
const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 56;
const CHECKED_FROM: usize = 16;
/// Of a node, with its checksum.
pub(super) const HEAD_BYTES: usize = 60;
const CHECKSUM_BYTES: usize = 4;

/// Whose state the observations of a file belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub cluster: u128,
    pub restored_at: Index,
}

/// What stands before a node's observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeHeader {
    pub node: NodeId,
    pub created_at: Index,
    pub version: ReportVersion,
    pub payload_bytes: u32,
    payload_crc: u32,
}

/// The number of the file that a node is in.
pub(super) fn file_of(node: NodeId) -> u64 {
    (node.0 % u128::from(FILES)) as u64
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The next number of so many bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (number, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*number)
}

impl FileHeader {
    /// Writes the header.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut checked = self.cluster.to_le_bytes().to_vec();
        checked.extend_from_slice(&self.restored_at.0.to_le_bytes());
        checked.resize(HEADER_BYTES - CHECKED_FROM, 0);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&crc(&checked).to_le_bytes());
        out.extend_from_slice(&checked);
    }

    /// None where it is of another format, or damaged.
    pub fn read(mut bytes: &[u8]) -> Option<Self> {
        let is_ours = take(&mut bytes)? == MAGIC && u32::from_le_bytes(take(&mut bytes)?) == VERSION;
        let is_whole = u32::from_le_bytes(take(&mut bytes)?) == crc(bytes);
        let (cluster, restored_at) = (u128::from_le_bytes(take(&mut bytes)?), take(&mut bytes)?);
        let restored_at = Index(u64::from_le_bytes(restored_at));
        (is_ours && is_whole).then_some(Self { cluster, restored_at })
    }
}

impl NodeHeader {
    /// None where it is damaged.
    pub fn read(mut bytes: &[u8]) -> Option<Self> {
        let (head, checksum) = bytes.split_at_checked(HEAD_BYTES - CHECKSUM_BYTES)?;
        if checksum != crc(head).to_le_bytes() {
            return None;
        }
        let node = NodeId(u128::from_le_bytes(take(&mut bytes)?));
        let mut number = || Some(u64::from_le_bytes(take(&mut bytes)?));
        let (created_at, epoch, seq, confirmed) = (Index(number()?), number()?, number()?, number()? == 1);
        let version = ReportVersion { epoch, seq, confirmed };
        let (payload_bytes, payload_crc) =
            (u32::from_le_bytes(take(&mut bytes)?), u32::from_le_bytes(take(&mut bytes)?));
        Some(Self { node, created_at, version, payload_bytes, payload_crc })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let from = out.len();
        let ReportVersion { epoch, seq, confirmed } = self.version;
        out.extend_from_slice(&self.node.0.to_le_bytes());
        for number in [self.created_at.0, epoch, seq, u64::from(confirmed)] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.payload_bytes.to_le_bytes());
        out.extend_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc(&out[from..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// Decodes the payload; none where it is damaged.
    pub fn checkpoint(&self, header: FileHeader, payload: &[u8]) -> Option<NodeCheckpoint> {
        if crc(payload) != self.payload_crc {
            return None;
        }
        let Self { created_at, version, .. } = *self;
        let FileHeader { cluster, restored_at } = header;
        let mut decoder = Decoder::new(payload);
        let count = decoder.array().ok()??;
        let allocs = (0..count).map(|_| decoder.decode::<ObservedAlloc>().map(Arc::new));
        let allocs = allocs.collect::<Result<Vec<_>, _>>().ok()?;
        (decoder.position() == payload.len()).then_some(NodeCheckpoint {
            cluster,
            restored_at,
            created_at,
            version,
            allocs,
        })
    }
}

/// Appends the checkpoint of a node; false, and nothing is appended, where it is too large.
pub(super) fn append(out: &mut Vec<u8>, node: NodeId, checkpoint: &NodeCheckpoint) -> bool {
    let (mut payload, mut is_written) = (Encoder::new(Vec::new()), true);
    is_written &= payload.array(checkpoint.allocs.len() as u64).is_ok();
    for alloc in &checkpoint.allocs {
        is_written &= payload.encode(&**alloc).is_ok();
        if payload.writer().len() > NODE_BYTES_MAX {
            return false;
        }
    }
    let payload = payload.into_writer();
    let NodeCheckpoint { created_at, version, .. } = *checkpoint;
    let Ok(payload_bytes) = u32::try_from(payload.len()) else { return false };
    let head = NodeHeader { node, created_at, version, payload_bytes, payload_crc: crc(&payload) };
    is_written && append_encoded(out, &head, &payload)
}

/// The same, for a node that is encoded already.
pub(super) fn append_encoded(out: &mut Vec<u8>, head: &NodeHeader, payload: &[u8]) -> bool {
    if out.len() + HEAD_BYTES + payload.len() > FILE_BYTES_MAX {
        return false;
    }
    head.write(out);
    out.extend_from_slice(payload);
    true
}

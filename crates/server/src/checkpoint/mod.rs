//! Observed state on this server's disk: after a restart a server compares digests with its agents and requests only what differs.
//! Nothing here is synced and nothing is relied on: what is torn, damaged or lost is requested in full.
//!
//! Nodes are spread over [`FILES`] files in `observed/`. A file is replaced whole, by a rename, some seconds after anything of one of its
//! nodes has changed:
//!
//! ```text
//!  0  magic "BERTHOBS"    12  crc32 of the 40 bytes behind    then for each node: head, its crc32 (u32), payload
//!  8  version u32         16  cluster u128, restored_at u64, zero
//! ```
//!
//! A head holds node (u128), its registration's index, epoch, seq, confirmed (u64 each), bytes of the payload and its crc32 (u32
//! each). The payload is CBOR: the node's observations. Numbers are little-endian.

mod counters;
mod file;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use counters::WriteCounters;
pub(crate) use read::StoredNodes;
pub(crate) use write::maintain;

/// The directory, within the data directory.
const DIR: &str = "observed";
/// Files that nodes are spread over.
const FILES: u64 = 256;
/// Bytes of one node; a larger one is not stored.
const NODE_BYTES_MAX: usize = 1 << 20;
/// Bytes of one file, so that all of them take at most 512 MiB; nodes that do not fit are not stored.
const FILE_BYTES_MAX: usize = 2 << 20;
/// With less free space on the disk nothing is written: the log, which is usually on the same disk, needs it more.
const FREE_BYTES_MIN: u64 = 512 << 20;
/// Once paused, writing resumes with this much free space.
const FREE_AGAIN_BYTES_MIN: u64 = 640 << 20;

//! What agents have reported, kept on this server's disk: a server that is started again compares digests with its agents and asks
//! only for what differs. Nothing here is synced and nothing is relied on: what is torn, damaged or lost is asked for in full.
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

/// In the data directory.
const DIR: &str = "observed";
/// Among which nodes are spread.
const FILES: u64 = 256;
/// Of one node; what takes more is not kept.
const NODE_BYTES_MAX: usize = 1 << 20;
/// Of one file, so that all of them take at most 512 MiB; what does not fit is not kept.
const FILE_BYTES_MAX: usize = 2 << 20;
/// Free on the disk, or nothing is written: the log, which has the same disk as a rule, needs it more.
const FREE_BYTES_MIN: u64 = 512 << 20;
/// Free again, until something is written again.
const FREE_AGAIN_BYTES_MIN: u64 = 640 << 20;

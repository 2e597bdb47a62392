//! Removes the end of the log: records that a new leader does not have. Nothing of it may be taken for damage when the
//! power fails in the middle, so the state file says first where the log ends from now on. Every step after that may be
//! done again, and is at the next start.

use std::{io, path::Path};

use minicbor::{Decode, Encode};

use super::{recover, segment};
use crate::disk::{self, Disk};

/// What file systems give space by, at the least: a block is there as a whole, or is not.
const BLOCK_BYTES: usize = 4096;

/// Where the log is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Truncation {
    /// First record of the segment that becomes the newest.
    #[n(0)]
    pub segment: u64,
    /// Where the next record goes in it, in bytes.
    #[n(1)]
    pub offset: u64,
}

impl Truncation {
    /// Removes all that lies behind, and makes it as if it had never been written. Durable when it returns.
    pub fn carry_out(self, disk: &dyn Disk, log_dir: &Path) -> io::Result<()> {
        for first in recover::list(disk, log_dir)?.into_iter().filter(|first| *first > self.segment) {
            disk.remove(&segment::path(log_dir, first))?;
        }
        disk.sync_dir(log_dir)?;
        wipe(disk, &segment::path(log_dir, self.segment), self.offset)
    }
}

/// Makes a segment as if nothing had been written from an offset on. Where nothing was, nothing is: on a full disk there may be
/// no space for the zeros of a segment that was begun as a hole.
pub(crate) fn wipe(disk: &dyn Disk, path: &Path, from: u64) -> io::Result<()> {
    let bytes = disk.read(path)?;
    let mut file = disk.open(path)?;
    let mut at = usize::try_from(from).unwrap_or(bytes.len());
    while at < bytes.len() {
        let end = bytes.len().min((at / BLOCK_BYTES + 1) * BLOCK_BYTES);
        if let Some(last) = bytes[at..end].iter().rposition(|byte| *byte != 0) {
            disk::write_zeros(&mut *file, at as u64, (at + last + 1) as u64)?;
        }
        at = end;
    }
    file.sync()
}

//! Removes the end of the log: records that a new leader does not have. Nothing of it may be taken for damage when the
//! power fails in the middle, so the state file says first where the log ends from now on. Every step after that may be
//! done again, and is at the next start.

use std::{io, path::Path};

use minicbor::{Decode, Encode};

use super::{recover, segment};
use crate::disk::{self, Disk};

/// Where the log is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Cut {
    /// First record of the segment that becomes the newest.
    #[n(0)]
    pub segment: u64,
    /// Where the next record goes in it, in bytes.
    #[n(1)]
    pub offset: u64,
}

impl Cut {
    /// Removes all that lies behind, and makes it as if it had never been written. Durable when it returns.
    pub fn carry_out(self, disk: &dyn Disk, log_dir: &Path) -> io::Result<()> {
        for first in recover::list(disk, log_dir)?.into_iter().filter(|first| *first > self.segment) {
            disk.remove(&segment::path(log_dir, first))?;
        }
        disk.sync_dir(log_dir)?;
        wipe(disk, &segment::path(log_dir, self.segment), self.offset)
    }
}

/// Makes a segment as if nothing had been written from an offset on.
pub(crate) fn wipe(disk: &dyn Disk, path: &Path, from: u64) -> io::Result<()> {
    let end = disk.len(path)?;
    let mut file = disk.open(path)?;
    disk::write_zeros(&mut *file, from, end)?;
    file.sync()
}

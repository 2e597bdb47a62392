//! Tells a disk from memory that looks like one.

use std::{io, path::Path};

use nix::sys::statfs::{self, FsType, TMPFS_MAGIC};

/// Linux's number for ramfs, from `linux/magic.h`.
const RAMFS_MAGIC: u32 = 0x8584_58f6;

/// Whether what is written to `dir` is gone with the power, however well it is synced: tmpfs and ramfs.
///
/// # Errors
/// When `dir` is not there or cannot be asked.
pub fn is_memory_backed(dir: &Path) -> io::Result<bool> {
    let kind = statfs::statfs(dir)?.filesystem_type();
    Ok(kind == TMPFS_MAGIC || kind == FsType(RAMFS_MAGIC.into()))
}

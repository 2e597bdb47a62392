//! Tells a disk from memory that looks like one.

use std::{io, path::Path};

/// Linux's number for tmpfs, from `linux/magic.h`.
const TMPFS_MAGIC: u32 = 0x0102_1994;
/// The same for ramfs.
const RAMFS_MAGIC: u32 = 0x8584_58f6;

/// Whether what is written to `dir` is gone with the power, however well it is synced: tmpfs and ramfs.
///
/// # Errors
/// When `dir` is not there or cannot be asked.
pub fn is_memory_backed(dir: &Path) -> io::Result<bool> {
    let kind = u32::try_from(rustix::fs::statfs(dir)?.f_type);
    Ok(kind.is_ok_and(|kind| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&kind)))
}

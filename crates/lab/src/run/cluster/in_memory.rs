//! Finds out whether a directory is on a disk or on a file system in memory.

use std::{io, path::Path};

use rustix::fs::statfs;

/// Linux's numbers for tmpfs and ramfs, from `linux/magic.h`.
const MEMORY_MAGICS: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether what is written to `dir` never reaches a disk: syncing it costs nothing there.
///
/// # Errors
/// When `dir` is not there or cannot be asked.
pub(super) fn is_memory_backed(dir: &Path) -> io::Result<bool> {
    // The kernel's type is as wide as a word; the numbers fit 32 bits.
    let magic = statfs(dir)?.f_type as u32;
    Ok(MEMORY_MAGICS.contains(&magic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_distinguished_from_a_disk() {
        assert!(is_memory_backed(Path::new("/dev/shm")).unwrap());
        assert!(!is_memory_backed(Path::new("/proc")).unwrap());
        assert!(is_memory_backed(Path::new("/not/there")).is_err());
    }
}

//! The disk that allocations write to.

use std::path::Path;

/// A change by less than this part of the disk is not worth telling.
const PART_TOLD: u64 = 20;

/// Bytes of the filesystem that allocations' files are on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) total: u64,
    pub(super) free: u64,
    /// What allocations have together: what is free, and what they hold of it by now. What one of them writes takes
    /// nothing away from the others.
    pub(super) room: u64,
}

impl Disk {
    /// That of `path`, on which allocations hold so many bytes.
    pub(super) fn of(path: &Path, held: u64) -> Self {
        let Ok(found) = nix::sys::statvfs::statvfs(path) else { return Self::default() };
        let unit = found.fragment_size();
        let (total, free) = (found.blocks() * unit, found.blocks_available() * unit);
        Self { total, free, room: free.saturating_add(held).min(total) }
    }

    /// What is told from now on where `told` was told last: that, until something has changed that matters.
    pub(super) fn after(self, told: Option<Self>) -> Self {
        let moves = |before: u64, now: u64| before.abs_diff(now) > self.total / PART_TOLD;
        let differs = |told: &Self| {
            told.total != self.total || moves(told.free, self.free) || moves(told.room, self.room)
        };
        told.filter(|told| !differs(told)).unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_allocation_writes_leaves_the_room_of_all_as_it_is() {
        let root = Path::new("/");
        let (empty, used) = (Disk::of(root, 0), Disk::of(root, 1 << 20));
        assert!(empty.total > 0 && used.room >= empty.free.min(used.free));
        assert_eq!(Disk::of("/no/such/directory".as_ref(), 5), Disk::default());
    }

    #[test]
    fn small_changes_are_not_told() {
        let told = Disk { total: 1_000, free: 500, room: 600 };
        let after = |total, free, room| Disk { total, free, room }.after(Some(told));
        assert_eq!(after(1_000, 460, 640), told);
        assert_eq!(after(1_000, 440, 600).free, 440);
        assert_eq!(after(1_000, 500, 660).room, 660);
        assert_eq!(after(2_000, 500, 600).total, 2_000);
    }
}

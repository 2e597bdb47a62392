//! The disk that allocations write to.

use std::path::Path;

/// A change by less than this part of the disk is not reported.
const REPORTED_PART: u64 = 20;

/// Bytes of the filesystem that allocations' files are on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) total: u64,
    pub(super) free: u64,
    /// What allocations have together: what is free, and what they hold of it by now. What one of them writes takes
    /// nothing away from the others.
    pub(super) available: u64,
}

impl Disk {
    /// The disk of `path`, on which allocations use `held_bytes`: these count as available.
    pub(super) fn of(path: &Path, held_bytes: u64) -> Self {
        let Ok(found) = rustix::fs::statvfs(path) else { return Self::default() };
        let unit = found.f_frsize;
        let (total, free) = (found.f_blocks * unit, found.f_bavail * unit);
        Self { total, free, available: free.saturating_add(held_bytes).min(total) }
    }

    /// What is reported from now on where `reported` was reported last: that, until a change is large enough.
    pub(super) fn after(self, reported: Option<Self>) -> Self {
        let moves = |before: u64, now: u64| before.abs_diff(now) > self.total / REPORTED_PART;
        let differs = |reported: &Self| {
            reported.total != self.total
                || moves(reported.free, self.free)
                || moves(reported.available, self.available)
        };
        reported.filter(|reported| !differs(reported)).unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_allocation_writes_leaves_the_room_of_all_as_it_is() {
        let root = Path::new("/");
        let (empty, used) = (Disk::of(root, 0), Disk::of(root, 1 << 20));
        assert!(empty.total > 0 && used.available >= empty.free.min(used.free));
        assert_eq!(Disk::of("/no/such/directory".as_ref(), 5), Disk::default());
    }

    #[test]
    fn small_changes_are_not_reported() {
        let reported = Disk { total: 1_000, free: 500, available: 600 };
        let after = |total, free, available| Disk { total, free, available }.after(Some(reported));
        assert_eq!(after(1_000, 460, 640), reported);
        assert_eq!(after(1_000, 440, 600).free, 440);
        assert_eq!(after(1_000, 500, 660).available, 660);
        assert_eq!(after(2_000, 500, 600).total, 2_000);
    }
}

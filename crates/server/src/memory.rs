//! Memory that is free and still this process's. The system's allocator keeps what a flood of connections or jobs has taken
//! and given back, for good if nothing asks for it: here it is returned to the machine.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::EventHub;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// So much must have become free since the last time: less is kept for what comes next.
const WORTH_BYTES: usize = 16 << 20;

/// Looks now and then, until `stop` says so. What `events` keep is eased first.
pub(crate) async fn give_back(events: Arc<EventHub>, mut stop: watch::Receiver<bool>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut kept = Kept::default();
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            _ = stop.changed() => return,
        }
        // Both walk through all that is free, and hold parts of it locked meanwhile.
        let events = events.clone();
        let looked = tokio::task::spawn_blocking(move || {
            events.ease();
            if kept.is_worth_it(allocator::free_bytes()) {
                allocator::trim();
                kept.left(allocator::free_bytes());
            }
            kept
        });
        kept = looked.await.unwrap_or_default();
    }
}

/// What was free and not given back, or given back already: the allocator does not tell the two apart.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    bytes: usize,
}

impl Kept {
    fn is_worth_it(&mut self, free_bytes: usize) -> bool {
        // What has been used meanwhile is in memory when it becomes free again.
        self.bytes = self.bytes.min(free_bytes);
        free_bytes - self.bytes >= WORTH_BYTES
    }

    fn left(&mut self, free_bytes: usize) {
        self.bytes = free_bytes;
    }
}

/// The system's allocator, of which the standard library asks less.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
mod allocator {
    /// Bytes that are free in all its arenas.
    pub fn free_bytes() -> usize {
        // SAFETY: it takes nothing, and locks what it reads.
        unsafe { libc::mallinfo2() }.fordblks
    }

    /// Returns whole pages that are free.
    pub fn trim() {
        // SAFETY: it takes a number, locks what it changes, and touches nothing that is in use.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Other allocators look after themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod allocator {
    pub fn free_bytes() -> usize {
        0
    }

    pub fn trim() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_worth_it_once_much_has_become_free() {
        let mut kept = Kept::default();
        assert!(!kept.is_worth_it(WORTH_BYTES - 1));
        assert!(kept.is_worth_it(WORTH_BYTES));
        kept.left(WORTH_BYTES);
        assert!(!kept.is_worth_it(WORTH_BYTES), "it has been given back");
        assert!(!kept.is_worth_it(1 << 20), "it is used again");
        assert!(kept.is_worth_it(WORTH_BYTES + (1 << 20)), "and free again");
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_is_free_is_counted() {
        let blocks: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; 4096]).collect();
        // A block behind all others keeps the rest from being returned at once.
        let last = vec![1; 4096];
        let before = allocator::free_bytes();
        drop(blocks);
        assert!(allocator::free_bytes() > before + (4 << 20), "other tests take some of it at the same time");
        allocator::trim();
        assert_eq!(last.len(), 4096);
    }
}

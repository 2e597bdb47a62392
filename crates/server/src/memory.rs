//! Returns free memory to the machine: the system's allocator retains what a burst of connections or jobs has used, for good if
//! nothing requests it.

use std::{sync::Arc, time::Duration};

use berth_replication::Replication;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::EventHub;

/// Time between two checks.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Memory is returned once so much more is idle than after the last time: a sixteenth of the memory in use, within these bounds. Less is
/// kept for the next allocations. Finding idle pages takes time in proportion to the memory in use, hence the share.
const WORTH_BYTES_MIN: usize = 1 << 20;
const WORTH_BYTES_MAX: usize = 16 << 20;

/// Blocks from so many bytes on have pages of their own, which are returned when they are freed: long answers, messages and
/// buffers, which come and go. By itself the allocator raises this to up to 32 MiB as such blocks are freed, and has them in its
/// heaps from then on, where the small ones that are made meanwhile and stay keep all their pages. New pages cost time: with a
/// quarter of this, a placement took a fifth more.
const OWN_PAGES_BYTES_MIN: i32 = 1 << 20;
/// Idle bytes at the end of a heap above which they are returned at once, instead of at the next check: what the allocator arrives at by
/// itself.
const HEAP_END_IDLE_BYTES_MAX: i32 = 64 << 20;

/// Has the allocator keep as many separate heaps as there are processors, at most, and large blocks out of them. By itself it makes
/// up to eight times as many, and each keeps what is freed in it: a server under steady load held a sixth more memory. To be called
/// before threads are started.
pub fn bound_heaps() {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    allocator::bound_heaps(i32::try_from(processors).unwrap_or(i32::MAX));
    allocator::keep_apart(OWN_PAGES_BYTES_MIN, HEAP_END_IDLE_BYTES_MAX);
}

/// Checks every few seconds, until `stop` says so. First `events` and the log drop what they need not keep.
pub(crate) async fn give_back(events: Arc<EventHub>, log: Replication, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut idle = IdleMemory::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stop.changed() => return,
        }
        // Both walk through all that is free, and hold parts of it locked meanwhile.
        let (events, log) = (events.clone(), log.clone());
        let returned = tokio::task::spawn_blocking(move || {
            events.ease();
            log.ease();
            let (used_bytes, idle_bytes) = allocator::used_and_idle_bytes();
            if idle.is_worth_it(used_bytes, idle_bytes) {
                allocator::trim();
                idle.on_trimmed(allocator::used_and_idle_bytes().1);
            }
            idle
        });
        idle = returned.await.unwrap_or_default();
    }
}

/// Bytes that were still idle after the last trim: parts of pages whose rest is in use.
#[derive(Debug, Clone, Copy, Default)]
struct IdleMemory {
    bytes: usize,
}

impl IdleMemory {
    fn is_worth_it(&mut self, used_bytes: usize, idle_bytes: usize) -> bool {
        // Idle bytes that have been used since can be returned once they are idle again.
        self.bytes = self.bytes.min(idle_bytes);
        idle_bytes - self.bytes >= (used_bytes / 16).clamp(WORTH_BYTES_MIN, WORTH_BYTES_MAX)
    }

    fn on_trimmed(&mut self, idle_bytes: usize) {
        self.bytes = idle_bytes;
    }
}

/// The system's allocator, of which the standard library asks less.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
mod allocator {
    use std::fs;

    /// Bytes in use, and bytes that are in memory and in no use, about: what of this process's own memory is there beyond
    /// what it has asked for. What is free does not show that: of it, the kernel has back what was returned, until it is
    /// written to again, and what is used and free again between two looks shows in nothing else.
    pub fn used_and_idle_bytes() -> (usize, usize) {
        // SAFETY: it takes nothing, and locks what it reads.
        let info = unsafe { libc::mallinfo2() };
        let used = info.uordblks + info.hblkhd;
        (used, resident_bytes().saturating_sub(used))
    }

    /// Bytes of this process in memory that are no file's; 0 where the kernel does not report it.
    fn resident_bytes() -> usize {
        let counts = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut pages = counts.split(' ').skip(1).map_while(|count| count.parse::<usize>().ok());
        let (all, of_files) = (pages.next().unwrap_or_default(), pages.next().unwrap_or_default());
        // SAFETY: it takes a number, and only reads.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        all.saturating_sub(of_files) * usize::try_from(page_bytes).unwrap_or_default()
    }

    /// Makes no more heaps than this.
    pub fn bound_heaps(most: i32) {
        // SAFETY: it takes numbers, and changes what later heaps are made by.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, most) };
    }

    /// Gives blocks of so many bytes pages of their own, and returns what is free at the end of a heap beyond so many.
    pub fn keep_apart(block_bytes_min: i32, idle_bytes_max: i32) {
        // SAFETY: it takes numbers, and changes how later blocks are made.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, block_bytes_min);
            libc::mallopt(libc::M_TRIM_THRESHOLD, idle_bytes_max);
        }
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
    pub fn used_and_idle_bytes() -> (usize, usize) {
        (0, 0)
    }

    pub fn trim() {}

    pub fn bound_heaps(_most: i32) {}

    pub fn keep_apart(_block_bytes_min: i32, _idle_bytes_max: i32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_worth_it_once_much_more_is_idle() {
        for (used, worth) in [(1 << 20, WORTH_BYTES_MIN), (128 << 20, 8 << 20), (8 << 30, WORTH_BYTES_MAX)] {
            let mut idle = IdleMemory::default();
            assert!(!idle.is_worth_it(used, worth - 1));
            assert!(idle.is_worth_it(used, worth));
            idle.on_trimmed(worth);
            assert!(!idle.is_worth_it(used, worth), "it cannot be given back");
            assert!(!idle.is_worth_it(used, 1 << 20), "it is used again");
            assert!(idle.is_worth_it(used, worth + (1 << 20)), "and idle again");
        }
    }

    /// Uses much memory for a moment; what stays behind all of it keeps the allocator from returning it by itself.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn flood() -> Vec<u8> {
        let blocks: Vec<Vec<u8>> = (0..8192).map(|_| vec![1; 4096]).collect();
        let last = vec![1; 4096];
        drop(blocks);
        last
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_is_idle_is_counted_each_time_it_was_used() {
        // Other tests use and free memory at the same time: what they do in between is no one's fault.
        let is_counted = || {
            let first = flood();
            allocator::trim();
            let (_, idle_before) = allocator::used_and_idle_bytes();
            let second = flood();
            let counted = allocator::used_and_idle_bytes().1 > idle_before + (16 << 20);
            assert_eq!(first.len(), second.len());
            counted
        };
        assert!((0..20).any(|_| is_counted()), "as much is free as before, and all of it is in memory");
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    #[test]
    fn large_blocks_stay_out_of_the_heaps_however_many_were_freed() {
        // In a process of its own: other tests leave heaps in which such a block fits.
        const ALONE: &str = "BERTH_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "memory::tests::large_blocks_stay_out_of_the_heaps_however_many_were_freed";
            let mut alone = std::process::Command::new(std::env::current_exe().expect("it has a path"));
            let ended = alone.args(["--exact", name]).env(ALONE, "1").output().expect("it starts");
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
            return;
        }
        // Below what the allocator raises the bound to at most.
        const BLOCK_BYTES: usize = 30 << 20;
        // SAFETY: it takes nothing, and locks what it reads.
        let apart_bytes = || unsafe { libc::mallinfo2() }.hblkhd;
        bound_heaps();
        let block = || std::hint::black_box(Vec::<u8>::with_capacity(BLOCK_BYTES));
        drop(block());
        let before = apart_bytes();
        let _second = block();
        assert!(
            apart_bytes() >= before + BLOCK_BYTES,
            "the second is in a heap, where what was freed has raised the bound"
        );
    }
}

//! Allocations keep to the disk that their group asked for: from time to time it is measured what their files take, their
//! logs and their containers' writable layers with them, and one that takes more fails.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::agent::AllocId;

use super::Agent;
use crate::alloc_dir::size::measure;
use crate::lifecycle::Event;

/// How often it is measured. What is written faster than that shows only then.
const EVERY: Duration = Duration::from_secs(10);

/// How often it is looked whether it is time.
pub(super) const LOOKED_EVERY: Duration = Duration::from_secs(2);

/// Measuring takes no more than this part of the time.
const PART_OF_TIME: u32 = 50;

/// When to measure, and what was measured.
#[derive(Clone)]
pub(super) struct DiskLimits {
    /// None while that is under way.
    next: Arc<Mutex<Option<Instant>>>,
    held_bytes: Arc<AtomicU64>,
}

/// An allocation that is measured.
struct Limited {
    alloc: AllocId,
    root: PathBuf,
    limit_mb: u32,
}

impl Default for DiskLimits {
    fn default() -> Self {
        Self { next: Arc::new(Mutex::new(Some(Instant::now() + EVERY))), held_bytes: Arc::default() }
    }
}

impl DiskLimits {
    /// Whether to begin; it has begun then.
    fn begin(&self) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.take_if(|at| *at <= Instant::now()).is_some()
    }

    /// What all that was measured last took together.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    fn end(&self, began: Instant, held_bytes: u64) {
        self.held_bytes.store(held_bytes, Ordering::Relaxed);
        let pause = EVERY.max(began.elapsed() * PART_OF_TIME);
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + pause);
    }
}

impl Agent {
    /// Measures all that has a limit, if it is time.
    pub(super) fn check_disk(&self) {
        if !self.disk_limits.begin() {
            return;
        }
        let (limited, limits) = (self.limited(), self.disk_limits.clone());
        let events = self.context.events.clone();
        tokio::task::spawn_blocking(move || {
            let (began, mut held_bytes) = (Instant::now(), 0);
            for Limited { alloc, root, limit_mb } in limited {
                match measure(&root) {
                    Ok(size) => {
                        held_bytes += size.bytes();
                        let why = size.excess(limit_mb);
                        if why.is_some_and(|why| events.blocking_send(Event::Overran { alloc, why }).is_err())
                        {
                            return;
                        }
                    }
                    // One that has ended meanwhile is no failure.
                    Err(errno) => tracing::debug!(%alloc, %errno, "could not measure an allocation's files"),
                }
            }
            limits.end(began, held_bytes);
        });
    }

    /// Those that live. Tasks that are only pretended write nothing.
    fn limited(&self) -> Vec<Limited> {
        let lives = self.node.allocs().filter(|alloc| !alloc.has_ended());
        let limited = lives.filter_map(|alloc| {
            let group = &alloc.spec().group;
            let writes = group.tasks.iter().any(|task| task.driver != "mock_driver");
            let root = || self.data.place(alloc.id()).root().to_owned();
            (writes && group.disk_mb > 0).then(|| Limited {
                alloc: alloc.id(),
                root: root(),
                limit_mb: group.disk_mb,
            })
        });
        limited.collect()
    }
}

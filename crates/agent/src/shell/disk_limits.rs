//! Allocations keep to the disk that their group asked for: it is measured what their files take, their logs and their
//! containers' writable layers with them, and one that takes more fails.
//!
//! Nobody can have passed its limit before the disk has lost as much room as it had left when it was measured. So the room on
//! the disk is looked at often, which costs nothing, and who may have passed its limit by then is measured at once; all are
//! from time to time, since what others give back meanwhile hides what one takes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::agent::AllocId;

use super::Agent;
use super::usage::Tree;
use crate::alloc_dir::deleted::{Holder, held_bytes};
use crate::alloc_dir::size::{Size, measure};
use crate::keeper::plan::StartRecord;
use crate::lifecycle::Event;
use crate::place::AllocPlace;

/// How often all are measured.
const EVERY: Duration = Duration::from_secs(10);

/// How often the room on the disk is looked at. What is written meanwhile shows only then.
pub(super) const LOOKED_EVERY: Duration = Duration::from_millis(250);

/// Measuring all takes no more than this part of the time.
const PART_OF_TIME: u32 = 50;

/// Where a container has directories of its allocation that lie on the disk.
const IN_CONTAINERS: [&str; 2] = ["/alloc", "/local"];

/// And measuring those that may have passed their limit no more than this.
const PART_OF_TIME_OF_SUSPECTS: u32 = 5;

/// What was measured, and when to do so again.
#[derive(Clone)]
pub(super) struct DiskLimits {
    /// None while it is measured.
    idle: Arc<Mutex<Option<Idle>>>,
    held_bytes: Arc<AtomicU64>,
}

/// Between two measurings.
struct Idle {
    /// When all are due.
    all_at: Instant,
    /// From when on some may be.
    some_at: Instant,
    known: BTreeMap<AllocId, Known>,
    /// The room that the disk had when it was last looked at; none before that.
    free_bytes: Option<u64>,
}

/// An allocation that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    bytes: u64,
    /// It keeps to its limit for as long as the disk has more room than this.
    alarm_at_free_bytes: u64,
}

/// An allocation that has a limit.
#[derive(Debug, Clone, Copy)]
struct Limited {
    alloc: AllocId,
    limit_mb: u32,
    /// It takes files over from the one before it.
    inherits: bool,
}

impl Known {
    /// One that could not be measured may have passed its limit whatever the disk says.
    const UNMEASURED: Self = Self { bytes: 0, alarm_at_free_bytes: u64::MAX };

    fn new(size: Size, limit_mb: u32, free_bytes: u64) -> Self {
        let bytes = size.bytes();
        let left = (u64::from(limit_mb) << 20).saturating_sub(bytes);
        Self { bytes, alarm_at_free_bytes: free_bytes.saturating_sub(left) }
    }

    fn may_have_passed(&self, free_bytes: u64) -> bool {
        free_bytes <= self.alarm_at_free_bytes
    }
}

impl Default for DiskLimits {
    fn default() -> Self {
        let now = Instant::now();
        let idle = Idle { all_at: now + EVERY, some_at: now, known: BTreeMap::new(), free_bytes: None };
        Self { idle: Arc::new(Mutex::new(Some(idle))), held_bytes: Arc::default() }
    }
}

impl DiskLimits {
    /// Whether to begin; it has begun then.
    fn begin(&self) -> Option<Idle> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.take_if(|idle| idle.some_at <= Instant::now())
    }

    /// What all that was measured last took together.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    fn end(&self, idle: Idle) {
        let held = idle.known.values().map(|known| known.bytes).sum();
        self.held_bytes.store(held, Ordering::Relaxed);
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(idle);
    }
}

impl Idle {
    /// Those that are to be measured now, and whether these are all.
    fn due(&mut self, limited: Vec<Limited>, free_bytes: u64) -> (Vec<Limited>, bool) {
        let living: BTreeSet<AllocId> = limited.iter().map(|limited| limited.alloc).collect();
        self.known.retain(|alloc, _| living.contains(alloc));
        if let Some(before) = self.free_bytes.replace(free_bytes) {
            // What has come since then began with nothing: all that it has written by now is what the disk has lost.
            for Limited { alloc, limit_mb, .. } in limited.iter().filter(|limited| !limited.inherits) {
                let begun = Known::new(Size::Bytes(0), *limit_mb, before.max(free_bytes));
                self.known.entry(*alloc).or_insert(begun);
            }
        }
        if self.all_at <= Instant::now() {
            return (limited, true);
        }
        let is_suspect = |limited: &Limited| {
            self.known.get(&limited.alloc).is_none_or(|known| known.may_have_passed(free_bytes))
        };
        (limited.into_iter().filter(is_suspect).collect(), false)
    }

    fn pause(&mut self, took: Duration, all: bool) {
        let now = Instant::now();
        self.some_at = now + took * PART_OF_TIME_OF_SUSPECTS;
        if all {
            self.all_at = now + EVERY.max(took * PART_OF_TIME);
        }
    }
}

impl Agent {
    /// Measures what has to be, if it is time.
    pub(super) fn check_disk(&self) {
        let limited = self.limited();
        if limited.is_empty() {
            return;
        }
        let Some(mut idle) = self.disk_limits.begin() else { return };
        let (data, limits, events) =
            (self.data.clone(), self.disk_limits.clone(), self.context.events.clone());
        tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            // Where that cannot be told, only the time counts.
            let free_bytes = free_bytes(data.path()).unwrap_or(u64::MAX);
            let (due, all) = idle.due(limited, free_bytes);
            let tree = if due.is_empty() { Tree::default() } else { Tree::read() };
            for Limited { alloc, limit_mb, .. } in due {
                let place = data.place(alloc);
                match measure(place.root()) {
                    Ok(size) => {
                        let deleted = deleted_bytes(&place, &tree);
                        let size = size.and(deleted);
                        idle.known.insert(alloc, Known::new(size, limit_mb, free_bytes));
                        let why = size.excess(limit_mb, deleted);
                        if why.is_some_and(|why| events.blocking_send(Event::Overran { alloc, why }).is_err())
                        {
                            return;
                        }
                    }
                    // One that has ended meanwhile is no failure.
                    Err(errno) => {
                        idle.known.insert(alloc, Known::UNMEASURED);
                        tracing::debug!(%alloc, %errno, "could not measure an allocation's files");
                    }
                }
            }
            idle.pause(began.elapsed(), all);
            limits.end(idle);
        });
    }

    /// Those that live. Tasks that are only pretended write nothing.
    fn limited(&self) -> Vec<Limited> {
        let lives = self.node.allocs().filter(|alloc| !alloc.has_ended());
        let limited = lives.filter_map(|alloc| {
            let group = &alloc.spec().group;
            let writes = group.tasks.iter().any(|task| task.driver != "mock_driver");
            let inherits = !alloc.spec().previous.is_empty();
            let limited = Limited { alloc: alloc.id(), limit_mb: group.disk_mb, inherits };
            (writes && group.disk_mb > 0).then_some(limited)
        });
        limited.collect()
    }
}

/// What the tasks of an allocation hold of files that they have deleted.
fn deleted_bytes(place: &AllocPlace, tree: &Tree) -> u64 {
    // Processes' files are told of by paths without links.
    let Ok((path, root)) = place.root().canonicalize().and_then(|path| Ok((path, place.root().metadata()?)))
    else {
        return 0;
    };
    let keepers = place.root().join("keepers").read_dir().into_iter().flatten().flatten();
    let holders = keepers.filter_map(|keeper| {
        let start = StartRecord::read(&keeper.path()).ok().flatten()?;
        let pids = tree.of_task(start.keeper_pid, start.pid);
        Some(if start.container.is_some() {
            let began_s = i64::try_from(start.started_ns / 1_000_000_000).ok()?;
            Holder { pids, dirs: IN_CONTAINERS.map(PathBuf::from).into(), began_s: Some(began_s) }
        } else {
            Holder { pids, dirs: vec![path.clone()], began_s: None }
        })
    });
    held_bytes(&holders.collect::<Vec<_>>(), root.dev())
}

/// The room that the disk has, that of its administrator with it.
fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bfree.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn who_may_have_passed_its_limit_is_measured_and_nobody_else() {
        let [near, far, new, heir] = [1, 2, 3, 4].map(|number| AllocId([number; 16]));
        let limited = |allocs: &[AllocId]| -> Vec<Limited> {
            allocs
                .iter()
                .map(|alloc| Limited { alloc: *alloc, limit_mb: 10, inherits: *alloc == heir })
                .collect()
        };
        let later = Instant::now() + Duration::from_secs(3_600);
        let free = 100 * MIB;
        let known = [
            (near, Known::new(Size::Bytes(9 * MIB), 10, free)),
            (far, Known::new(Size::Bytes(2 * MIB), 10, free)),
        ];
        let mut idle = Idle { all_at: later, some_at: later, known: known.into(), free_bytes: None };
        let mut due = |allocs: &[AllocId], free| {
            let (due, all) = idle.due(limited(allocs), free);
            (due.into_iter().map(|limited| limited.alloc).collect::<Vec<_>>(), all)
        };
        let both = [near, far];
        assert_eq!(
            due(&[near, far, new], free),
            (vec![new], false),
            "what is there at the first look is measured"
        );
        assert_eq!(due(&both, free), (vec![], false));
        assert_eq!(due(&both, free - MIB + 1), (vec![], false));
        assert_eq!(due(&both, free - MIB), (vec![near], false));
        assert_eq!(due(&both, free - 8 * MIB), (vec![near, far], false));
        // What comes later begins with nothing, at the room that there was before it, unless it takes files over.
        assert_eq!(due(&[far, new, heir], free - 8 * MIB), (vec![far, heir], false));
        assert_eq!(due(&[new], free - 9 * MIB), (vec![], false));
        assert_eq!(due(&[new], free - 18 * MIB), (vec![new], false));
        // Whoever has gone is not known any more.
        assert_eq!(due(&[far], free), (vec![], false));
        assert_eq!(due(&both, free - 2 * MIB), (vec![], false));
        idle.all_at = Instant::now();
        assert_eq!(idle.due(limited(&both), free).0.len(), 2);
        // One that has passed its limit, or cannot be measured, is looked at again whatever the disk says.
        assert!(Known::new(Size::Bytes(11 * MIB), 10, free).may_have_passed(free));
    }
}

//! Allocations keep to the disk that their group asked for: it is measured what their files take, their logs and their
//! containers' writable layers with them, and one that takes more fails, by SIGKILL and at once.
//!
//! Nobody can have passed its limit before the disk has lost as much room as it had left when it was measured. So the room on
//! the disk is looked at often, the more so the less is left to any of them, and who may have passed its limit by then is
//! measured at once; all are from time to time, since what others give back meanwhile hides what one takes.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::agent::AllocId;
use nix::unistd::Pid;

use super::Agent;
use super::usage::Tree;
use crate::alloc_dir::deleted::{Holder, held_bytes};
use crate::alloc_dir::size::{Size, measure};
use crate::keeper::plan::StartRecord;
use crate::lifecycle::Event;
use crate::paths::AllocPaths;
use crate::proc;

/// How often all are measured.
const EVERY: Duration = Duration::from_secs(10);

/// How often the room on the disk is looked at while nobody is near its limit, and once somebody is. What is written
/// meanwhile shows only then.
const LOOKED_EVERY: Duration = Duration::from_millis(250);
const LOOKED_EVERY_MIN: Duration = Duration::from_millis(25);

/// What nobody writes faster than, in bytes a second: the room is looked at before as much as is left can be gone.
const WRITTEN_PER_SECOND_MAX: u64 = 2 << 30;

/// Measuring all takes no more than this part of the time.
const PART_OF_TIME: u32 = 50;

/// Where a container has directories of its allocation that lie on the disk.
const IN_CONTAINERS: [&str; 2] = ["/alloc", "/local"];

/// And measuring those that may have passed their limit no more than this.
const PART_OF_TIME_OF_SUSPECTS: u32 = 2;

/// What was measured, and when to do so again.
#[derive(Clone)]
pub(super) struct DiskLimits {
    /// None while it is measured.
    idle: Arc<Mutex<Option<Idle>>>,
    held_bytes: Arc<AtomicU64>,
    /// How long after a look at the room on the disk the next one is, in milliseconds.
    look_after_ms: Arc<AtomicU64>,
}

/// Between two measurings.
struct Idle {
    /// When all are due.
    all_at: Instant,
    /// From when on some may be.
    some_at: Instant,
    known: BTreeMap<AllocId, Known>,
    /// What took room when nothing but poststop tasks was left to run, in bytes.
    left: BTreeMap<AllocId, u64>,
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
    /// Only poststop tasks are left to run: they may take as much again as there was then.
    cleans_up: bool,
}

impl Known {
    /// One that could not be measured may have passed its limit whatever the disk says.
    const UNMEASURED: Self = Self { bytes: 0, alarm_at_free_bytes: u64::MAX };

    /// One that has files which others `left` there, and may have so much more.
    fn new(size: Size, limit_mb: u32, left: u64, free_bytes: u64) -> Self {
        let bytes = size.bytes();
        let room = (u64::from(limit_mb) << 20).saturating_add(left).saturating_sub(bytes);
        Self { bytes, alarm_at_free_bytes: free_bytes.saturating_sub(room) }
    }

    /// One that is ended for it: it is measured with all others again.
    fn reported(size: Size) -> Self {
        Self { bytes: size.bytes(), alarm_at_free_bytes: 0 }
    }

    fn may_have_passed(&self, free_bytes: u64) -> bool {
        free_bytes <= self.alarm_at_free_bytes
    }
}

impl Default for DiskLimits {
    fn default() -> Self {
        let now = Instant::now();
        let (known, left) = (BTreeMap::new(), BTreeMap::new());
        let idle = Idle { all_at: now + EVERY, some_at: now, known, left, free_bytes: None };
        let look_after_ms = Arc::new(AtomicU64::new(millis(LOOKED_EVERY)));
        Self { idle: Arc::new(Mutex::new(Some(idle))), held_bytes: Arc::default(), look_after_ms }
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

    /// When to look at the room on the disk next.
    pub(super) fn next_look(&self) -> tokio::time::Instant {
        tokio::time::Instant::now() + Duration::from_millis(self.look_after_ms.load(Ordering::Relaxed))
    }

    fn end(&self, idle: Idle) {
        self.look_after_ms.store(millis(idle.look_after()), Ordering::Relaxed);
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
        self.left.retain(|alloc, _| living.contains(alloc));
        if let Some(before) = self.free_bytes.replace(free_bytes) {
            // What has come since then began with nothing: all that it has written by now is what the disk has lost.
            for Limited { alloc, limit_mb, .. } in limited.iter().filter(|limited| !limited.inherits) {
                let begun = Known::new(Size::Bytes(0), *limit_mb, 0, before.max(free_bytes));
                self.known.entry(*alloc).or_insert(begun);
            }
        }
        if self.all_at <= Instant::now() {
            return (limited, true);
        }
        let is_suspect = |limited: &Limited| {
            let begins_to_clean_up = limited.cleans_up && !self.left.contains_key(&limited.alloc);
            let known = self.known.get(&limited.alloc);
            begins_to_clean_up || known.is_none_or(|known| known.may_have_passed(free_bytes))
        };
        (limited.into_iter().filter(is_suspect).collect(), false)
    }

    /// So that whoever is nearest to its limit cannot pass it by much before the next look.
    fn look_after(&self) -> Duration {
        let Some(free_bytes) = self.free_bytes else { return LOOKED_EVERY };
        let rooms = self.known.values().map(|known| free_bytes.saturating_sub(known.alarm_at_free_bytes));
        let until_gone = |room: u64| Duration::from_millis(room / (WRITTEN_PER_SECOND_MAX / 1_000));
        rooms.min().map_or(LOOKED_EVERY, until_gone).clamp(LOOKED_EVERY_MIN, LOOKED_EVERY)
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
    /// A task has started, and may write what its allocation has left before the room on the disk is looked at again.
    pub(super) fn look_at_disk_soon(&mut self) {
        self.disk_look_at = self.disk_look_at.min(tokio::time::Instant::now() + LOOKED_EVERY_MIN);
    }

    /// Measures what has to be, if it is time.
    pub(super) fn check_disk(&mut self) {
        self.disk_look_at = self.disk_limits.next_look();
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
            let tree = LazyCell::new(Tree::read as fn() -> Tree);
            for Limited { alloc, limit_mb, cleans_up, .. } in due {
                let place = data.place(alloc);
                match measure(place.root()) {
                    // What is there cannot be counted, and who is to clean it up has not written it.
                    Ok(Size::TooMany | Size::TooDeep) if cleans_up && !idle.left.contains_key(&alloc) => {
                        idle.known.insert(alloc, Known::UNMEASURED);
                    }
                    Ok(named) => {
                        let left =
                            if cleans_up { *idle.left.entry(alloc).or_insert(named.bytes()) } else { 0 };
                        // The rest is not looked for while one goes on writing that has passed its limit without it.
                        let alone = named.excess(limit_mb, left, 0);
                        let deleted = if alone.is_some() { 0 } else { deleted_bytes(&place, &tree) };
                        let size = named.and(deleted);
                        let Some(why) = alone.or_else(|| size.excess(limit_mb, left, deleted)) else {
                            idle.known.insert(alloc, Known::new(size, limit_mb, left, free_bytes));
                            continue;
                        };
                        idle.known.insert(alloc, Known::reported(size));
                        let overran = Event::Overran { alloc, cleaning_up: cleans_up, why };
                        if events.blocking_send(overran).is_err() {
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
            let cleans_up = alloc.only_cleans_up();
            let limited = Limited { alloc: alloc.id(), limit_mb: group.disk_mb, inherits, cleans_up };
            (writes && group.disk_mb > 0).then_some(limited)
        });
        limited.collect()
    }
}

/// What the tasks of an allocation hold of files that they have deleted.
fn deleted_bytes(place: &AllocPaths, tree: &Tree) -> u64 {
    // Processes' files are told of by paths without links.
    let Ok((path, root)) = place.root().canonicalize().and_then(|path| Ok((path, place.root().metadata()?)))
    else {
        return 0;
    };
    let keepers = place.root().join("keepers").read_dir().into_iter().flatten().flatten();
    let holders = keepers.filter_map(|keeper| {
        let start = StartRecord::read(&keeper.path()).ok().flatten()?;
        // Another process may have its number by now.
        if proc::start_ticks(Pid::from_raw(start.pid)) != Some(start.pid_start_ticks) {
            return None;
        }
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

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
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
                .map(|alloc| {
                    let inherits = *alloc == heir;
                    Limited { alloc: *alloc, limit_mb: 10, inherits, cleans_up: false }
                })
                .collect()
        };
        let later = Instant::now() + Duration::from_secs(3_600);
        let free = 100 * MIB;
        let known = [
            (near, Known::new(Size::Bytes(9 * MIB), 10, 0, free)),
            (far, Known::new(Size::Bytes(2 * MIB), 10, 0, free)),
        ];
        let (known, left) = (known.into(), BTreeMap::new());
        let mut idle = Idle { all_at: later, some_at: later, known, left, free_bytes: None };
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
        // One that cannot be measured is looked at again whatever the disk says; one that is ended for it is not.
        assert!(Known::UNMEASURED.may_have_passed(free));
        assert!(!Known::reported(Size::Bytes(11 * MIB)).may_have_passed(1));
    }

    #[test]
    fn what_cleans_up_is_measured_first_and_may_take_as_much_again() {
        let alloc = AllocId([1; 16]);
        let later = Instant::now() + Duration::from_secs(3_600);
        let known = [(alloc, Known::reported(Size::Bytes(60 * MIB)))].into();
        let mut idle =
            Idle { all_at: later, some_at: later, known, left: BTreeMap::new(), free_bytes: Some(100 * MIB) };
        let limited = || vec![Limited { alloc, limit_mb: 10, inherits: false, cleans_up: true }];
        assert_eq!(idle.due(limited(), 100 * MIB).0.len(), 1);
        idle.left.insert(alloc, 60 * MIB);
        idle.known.insert(alloc, Known::new(Size::Bytes(60 * MIB), 10, 60 * MIB, 100 * MIB));
        assert_eq!(idle.due(limited(), 91 * MIB).0.len(), 0);
        assert_eq!(idle.due(limited(), 90 * MIB).0.len(), 1);
        assert!(idle.due(Vec::new(), 90 * MIB).0.is_empty() && idle.left.is_empty());
    }

    #[test]
    fn the_nearer_one_is_to_its_limit_the_sooner_it_is_looked_at() {
        let alloc = AllocId([1; 16]);
        let now = Instant::now();
        let after = |taken: u64| {
            let known = [(alloc, Known::new(Size::Bytes(taken << 20), 1_024, 0, 1 << 40))].into();
            let left = BTreeMap::new();
            Idle { all_at: now, some_at: now, known, left, free_bytes: Some(1 << 40) }.look_after()
        };
        assert_eq!([after(0), after(512)], [LOOKED_EVERY; 2]);
        assert!(after(800) < after(700), "{:?} {:?}", after(800), after(700));
        assert_eq!([after(1_020), after(2_000)], [LOOKED_EVERY_MIN; 2]);
    }
}

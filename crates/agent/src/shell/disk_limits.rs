//! Allocations keep to the disk that their group asked for: it is measured what their files take, their logs and their
//! containers' writable layers with them, and one that takes more fails, by SIGKILL and at once.
//!
//! Nobody can have passed its limit before the disk has lost as much room as it had left when it was measured. So the room on
//! the disk is looked at often, the more so the less is left to any of them, and who may have passed its limit by then is
//! measured at once; all are from time to time, since what others give back meanwhile hides what one takes.
//!
//! Where there are many files, that takes long. Then one that cannot have passed its limit by much waits, until it may have,
//! or until measuring it takes no more than a small part of the time: what others write is no reason to count files all day.

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

/// Measuring all takes no more than this part of the time, and so does measuring those that cannot be far beyond their limits.
const PART_OF_TIME: u32 = 50;

/// Not far: this part of the limit, and so many bytes at least.
const TOLERATED_PART: u64 = 64;
const TOLERATED_BYTES_MIN: u64 = 16 << 20;

/// What is paused for as often as the parts of the time say: that all are measured meanwhile bounds it in any case.
const MEASURED_MAX: Duration = Duration::from_secs(60);

/// Where a container has directories of its allocation that lie on the disk.
const IN_CONTAINERS: [&str; 2] = ["/alloc", "/local"];

/// And measuring those that may be far beyond it no more than this.
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
    /// It keeps to its limit for as long as the disk has no less room than this.
    alarm_at_free_bytes: u64,
    /// By how much it may be beyond its limit before it is measured though that takes more of the time than it should.
    tolerated_bytes: u64,
    measured: Measured,
    /// How often in a row it could not be measured.
    failures: u32,
}

/// When an allocation was measured last, and how long that took; as often as long as there were others that may have passed
/// their limits, since all of them share the time that there is for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Measured {
    at: Instant,
    took: Duration,
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

/// Measures allocations one after the other.
struct Round {
    /// All processes of the machine, once they had to be looked at, and how long that took.
    tree: Option<(Tree, Duration)>,
    /// How many are measured.
    number: u32,
    /// How many may have passed their limits.
    suspects: u32,
}

impl Round {
    fn of(due: &Due) -> Self {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).max(1);
        Self { tree: None, number: number(due.these.len()), suspects: number(due.suspects) }
    }

    /// What the tasks of an allocation hold of files that they have deleted, and how long it took to look at all processes, if
    /// that was done for it.
    fn deleted_bytes(&mut self, place: &AllocPaths) -> (u64, Duration) {
        let mut looked = Duration::ZERO;
        let (tree, _) = self.tree.get_or_insert_with(|| {
            let began = Instant::now();
            let tree = Tree::read();
            looked = began.elapsed();
            (tree, looked)
        });
        (deleted_bytes(place, tree), looked)
    }

    /// One that was begun with then is measured; with a share of what was `looked` at for all of them.
    fn measured(&self, began: Instant, looked: Duration) -> Measured {
        let at = Instant::now();
        let shared = self.tree.as_ref().map_or(Duration::ZERO, |(_, took)| *took / self.number);
        let took = at.saturating_duration_since(began).saturating_sub(looked) + shared;
        Measured { at, took: took.saturating_mul(self.suspects).min(MEASURED_MAX) }
    }
}

/// What is to be measured.
struct Due {
    these: Vec<Limited>,
    /// How many may have passed their limits, whether or not they are measured now.
    suspects: usize,
    is_all: bool,
}

impl Known {
    /// One that has files which others `left` there, and may have so much more.
    fn new(size: Size, limit_mb: u32, left: u64, free_bytes: u64, measured: Measured) -> Self {
        let (bytes, limit_bytes) = (size.bytes(), u64::from(limit_mb) << 20);
        let room = limit_bytes.saturating_add(left).saturating_sub(bytes);
        let tolerated_bytes = TOLERATED_BYTES_MIN.max(limit_bytes / TOLERATED_PART);
        let alarm_at_free_bytes = free_bytes.saturating_sub(room);
        Self { bytes, alarm_at_free_bytes, tolerated_bytes, measured, failures: 0 }
    }

    /// One that is ended for it: it is measured with all others again.
    fn reported(size: Size, measured: Measured) -> Self {
        Self { bytes: size.bytes(), alarm_at_free_bytes: 0, tolerated_bytes: 0, measured, failures: 0 }
    }

    /// One that could not be measured, after what was known of it: it may have passed its limit whatever the disk says.
    fn unmeasured(before: Option<&Self>, measured: Measured) -> Self {
        let failures = before.map_or(0, |before| before.failures).saturating_add(1);
        Self { bytes: 0, alarm_at_free_bytes: u64::MAX, tolerated_bytes: 0, measured, failures }
    }

    fn may_have_passed(&self, free_bytes: u64) -> bool {
        self.failures > 0 || free_bytes < self.alarm_at_free_bytes
    }

    /// When it is measured again, should it have passed its limit by as much as the disk allows.
    fn due_at(&self, free_bytes: u64) -> Instant {
        let Measured { at, took } = self.measured;
        if self.failures > 0 {
            let doubled = LOOKED_EVERY_MIN.saturating_mul(1 << self.failures.min(16));
            return at + doubled.min(EVERY).max(took * PART_OF_TIME);
        }
        // The square, since the faster somebody writes, the more is written while it is measured, too.
        let beyond = u128::from(self.alarm_at_free_bytes.saturating_sub(free_bytes).max(1));
        let tolerated = u128::from(self.tolerated_bytes);
        let part = u128::from(PART_OF_TIME) * tolerated * tolerated / (beyond * beyond);
        let part = u32::try_from(part).unwrap_or(PART_OF_TIME).clamp(PART_OF_TIME_OF_SUSPECTS, PART_OF_TIME);
        at + took * part
    }

    /// So that it cannot pass its limit by much before the next look; how it stands at the last one.
    fn look_after(&self, free_bytes: u64, now: Instant) -> Duration {
        let Measured { at, took } = self.measured;
        if self.failures > 0 {
            return self.due_at(free_bytes).saturating_duration_since(now);
        }
        let room = free_bytes.saturating_sub(self.alarm_at_free_bytes);
        let until_gone = Duration::from_millis(room / (WRITTEN_PER_SECOND_MAX / 1_000));
        until_gone.max((at + took * PART_OF_TIME_OF_SUSPECTS).saturating_duration_since(now))
    }
}

impl Default for DiskLimits {
    fn default() -> Self {
        let now = Instant::now();
        let (known, left) = (BTreeMap::new(), BTreeMap::new());
        let idle = Idle { all_at: now + EVERY, known, left, free_bytes: None };
        let look_after_ms = Arc::new(AtomicU64::new(millis(LOOKED_EVERY)));
        Self { idle: Arc::new(Mutex::new(Some(idle))), held_bytes: Arc::default(), look_after_ms }
    }
}

impl DiskLimits {
    /// Begins, unless it has begun.
    fn begin(&self) -> Option<Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).take()
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
        self.look_after_ms.store(millis(idle.look_after(Instant::now())), Ordering::Relaxed);
        let held = idle.known.values().map(|known| known.bytes).sum();
        self.held_bytes.store(held, Ordering::Relaxed);
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(idle);
    }
}

impl Idle {
    /// Those that are to be measured now.
    fn due(&mut self, limited: Vec<Limited>, free_bytes: u64, now: Instant) -> Due {
        let living: BTreeSet<AllocId> = limited.iter().map(|limited| limited.alloc).collect();
        self.known.retain(|alloc, _| living.contains(alloc));
        self.left.retain(|alloc, _| living.contains(alloc));
        if let Some(before) = self.free_bytes.replace(free_bytes) {
            // What has come since then began with nothing: all that it has written by now is what the disk has lost.
            for Limited { alloc, limit_mb, .. } in limited.iter().filter(|limited| !limited.inherits) {
                let measured = Measured { at: now, took: Duration::ZERO };
                let begun = Known::new(Size::Bytes(0), *limit_mb, 0, before.max(free_bytes), measured);
                self.known.entry(*alloc).or_insert(begun);
            }
        }
        let known = limited.iter().filter_map(|limited| self.known.get(&limited.alloc));
        let suspects = known.filter(|known| known.may_have_passed(free_bytes)).count();
        if self.all_at <= now {
            return Due { these: limited, suspects, is_all: true };
        }
        let these = limited.into_iter().filter(|limited| self.is_due(limited, free_bytes, now)).collect();
        Due { these, suspects, is_all: false }
    }

    fn is_due(&self, limited: &Limited, free_bytes: u64, now: Instant) -> bool {
        let Some(known) = self.known.get(&limited.alloc) else { return true };
        let begins_to_clean_up = limited.cleans_up && !self.left.contains_key(&limited.alloc);
        if begins_to_clean_up && known.failures == 0 {
            return true;
        }
        known.may_have_passed(free_bytes) && known.due_at(free_bytes) <= now
    }

    fn look_after(&self, now: Instant) -> Duration {
        let Some(free_bytes) = self.free_bytes else { return LOOKED_EVERY };
        let each = self.known.values().map(|known| known.look_after(free_bytes, now));
        each.min().unwrap_or(LOOKED_EVERY).clamp(LOOKED_EVERY_MIN, LOOKED_EVERY)
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
            let due = idle.due(limited, free_bytes, began);
            let mut round = Round::of(&due);
            for Limited { alloc, limit_mb, cleans_up, .. } in due.these {
                let (place, began) = (data.place(alloc), Instant::now());
                let known = match measure(place.root()) {
                    // What is there cannot be counted, and who is to clean it up has not written it.
                    Ok(Size::TooMany | Size::TooDeep) if cleans_up && !idle.left.contains_key(&alloc) => {
                        Known::unmeasured(idle.known.get(&alloc), round.measured(began, Duration::ZERO))
                    }
                    Ok(named) => {
                        let left =
                            if cleans_up { *idle.left.entry(alloc).or_insert(named.bytes()) } else { 0 };
                        // The rest is not looked for while one goes on writing that has passed its limit without it.
                        let alone = named.excess(limit_mb, left, 0);
                        let (deleted, looked) =
                            if alone.is_some() { (0, Duration::ZERO) } else { round.deleted_bytes(&place) };
                        let (size, measured) = (named.and(deleted), round.measured(began, looked));
                        match alone.or_else(|| size.excess(limit_mb, left, deleted)) {
                            None => Known::new(size, limit_mb, left, free_bytes, measured),
                            Some(why) => {
                                let overran = Event::Overran { alloc, cleaning_up: cleans_up, why };
                                if events.blocking_send(overran).is_err() {
                                    return;
                                }
                                Known::reported(size, measured)
                            }
                        }
                    }
                    // One that has ended meanwhile is no failure.
                    Err(errno) => {
                        tracing::debug!(%alloc, %errno, "could not measure an allocation's files");
                        Known::unmeasured(idle.known.get(&alloc), round.measured(began, Duration::ZERO))
                    }
                };
                idle.known.insert(alloc, known);
            }
            if due.is_all {
                idle.all_at = Instant::now() + EVERY.max(began.elapsed() * PART_OF_TIME);
            }
            limits.end(idle);
        });
    }

    /// Those that have files, which what waits to begin has none of. Tasks that are only pretended write nothing.
    fn limited(&self) -> Vec<Limited> {
        let lives = self.node.allocs().filter(|alloc| alloc.has_files());
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
    // Processes' files are told of by paths without links, as that of the data directory is.
    let path = place.root();
    let Ok(root) = path.metadata() else { return 0 };
    let keepers = path.join("keepers").read_dir().into_iter().flatten().flatten();
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
            Holder { pids, dirs: vec![path.to_owned()], began_s: None }
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

    fn at(at: Instant, took_ms: u64) -> Measured {
        Measured { at, took: Duration::from_millis(took_ms) }
    }

    fn idle(known: &[(AllocId, Known)], free_bytes: Option<u64>) -> Idle {
        let later = Instant::now() + Duration::from_secs(3_600);
        let known = known.iter().copied().collect();
        Idle { all_at: later, known, left: BTreeMap::new(), free_bytes }
    }

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
        let (free, now) = (100 * MIB, Instant::now());
        let known = |taken: u64| Known::new(Size::Bytes(taken * MIB), 10, 0, free, at(now, 0));
        let mut idle = idle(&[(near, known(9)), (far, known(2))], None);
        let mut due = |allocs: &[AllocId], free| {
            let due = idle.due(limited(allocs), free, now);
            (due.these.into_iter().map(|limited| limited.alloc).collect::<Vec<_>>(), due.is_all)
        };
        let both = [near, far];
        assert_eq!(
            due(&[near, far, new], free),
            (vec![new], false),
            "what is there at the first look is measured"
        );
        assert_eq!(due(&both, free), (vec![], false));
        assert_eq!(due(&both, free - MIB), (vec![], false), "at its limit, and not beyond it");
        assert_eq!(due(&both, free - MIB - 1), (vec![near], false));
        assert_eq!(due(&both, free - 8 * MIB - 1), (vec![near, far], false));
        // What comes later begins with nothing, at the room that there was before it, unless it takes files over.
        assert_eq!(due(&[far, new, heir], free - 8 * MIB - 1), (vec![far, heir], false));
        assert_eq!(due(&[new], free - 9 * MIB), (vec![], false));
        assert_eq!(due(&[new], free - 18 * MIB - 2), (vec![new], false));
        // Whoever has gone is not known any more.
        assert_eq!(due(&[far], free), (vec![], false));
        assert_eq!(due(&both, free - 2 * MIB), (vec![], false));
        idle.all_at = now;
        let all = idle.due(limited(&both), free, now);
        assert_eq!((all.these.len(), all.suspects, all.is_all), (2, 0, true));
        assert_eq!(idle.due(limited(&both), 0, now).suspects, 2);
        // One that is ended for it is not looked at again before all are.
        assert!(!Known::reported(Size::Bytes(11 * MIB), at(now, 0)).may_have_passed(1));
    }

    #[test]
    fn one_at_its_limit_that_writes_nothing_is_not_measured_over_and_over() {
        let now = Instant::now();
        let full = Known::new(Size::Bytes(10 * MIB), 10, 0, 100 * MIB, at(now, 400));
        assert!(!full.may_have_passed(100 * MIB) && full.may_have_passed(100 * MIB - 1));
    }

    /// Counts how often one of 200,000 files, near its limit, is measured within a minute, and how much the disk may lose
    /// in between, while `written` bytes a second are written to the disk.
    fn minute_beside(written: u64) -> (u32, u64) {
        let begun = Instant::now();
        let took = Duration::from_millis(400);
        let room_at = |ms: u64| (1 << 40) - written / 1_000 * ms;
        let measured = |ms| Known::new(Size::Bytes(499 * MIB), 500, 0, room_at(ms), at(begun, 0));
        let (mut known, mut times, mut unseen, mut ms) = (measured(0), 0, 0, 0);
        known.measured.took = took;
        while ms < 60_000 {
            let now = begun + Duration::from_millis(ms);
            if known.may_have_passed(room_at(ms)) && known.due_at(room_at(ms)) <= now {
                times += 1;
                unseen = unseen.max(known.alarm_at_free_bytes - room_at(ms));
                known = Known { measured: Measured { at: now, took }, ..measured(ms) };
                ms += 400;
            }
            ms += 25;
        }
        (times, unseen)
    }

    #[test]
    fn what_takes_long_to_measure_is_measured_the_oftener_the_more_it_may_have_written() {
        assert_eq!(minute_beside(0).0, 0);
        // Within 2 % of the time, and what the disk lost is little.
        let (times, unseen) = minute_beside(100 << 10);
        assert!(times <= 3 && unseen <= 16 * MIB, "{times} {unseen}");
        let (slow, unseen) = minute_beside(MIB);
        assert!(slow <= 4 && unseen <= 24 * MIB, "{slow} {unseen}");
        let (fast, unseen) = minute_beside(100 * MIB);
        assert!(fast >= 20 && unseen <= 300 * MIB, "{fast} {unseen}");
        let (fastest, unseen) = minute_beside(1_000 * MIB);
        assert!(fastest >= 40 && unseen <= 1_500 * MIB, "{fastest} {unseen}");
    }

    #[test]
    fn what_cannot_be_measured_is_tried_more_and_more_rarely() {
        let now = Instant::now();
        let mut known = Known::unmeasured(None, at(now, 0));
        let mut pauses = Vec::new();
        for _ in 0..20 {
            assert!(known.may_have_passed(u64::MAX));
            pauses.push(known.due_at(u64::MAX) - now);
            known = Known::unmeasured(Some(&known), at(now, 0));
        }
        assert_eq!(pauses[..2], [LOOKED_EVERY_MIN * 2, LOOKED_EVERY_MIN * 4]);
        assert!(pauses.is_sorted() && pauses[19] == EVERY, "{pauses:?}");
        assert_eq!(known.look_after(0, now), EVERY);
        // Nor is what takes long to find out.
        assert_eq!(Known::unmeasured(None, at(now, 1_000)).due_at(0) - now, Duration::from_secs(50));
    }

    #[test]
    fn what_cleans_up_is_measured_first_and_may_take_as_much_again() {
        let (alloc, now) = (AllocId([1; 16]), Instant::now());
        let known = [(alloc, Known::reported(Size::Bytes(60 * MIB), at(now, 0)))];
        let mut idle = idle(&known, Some(100 * MIB));
        let limited = || vec![Limited { alloc, limit_mb: 10, inherits: false, cleans_up: true }];
        assert_eq!(idle.due(limited(), 100 * MIB, now).these.len(), 1);
        // What cannot be counted is not counted again at once.
        idle.known.insert(alloc, Known::unmeasured(None, at(now, 2_000)));
        assert_eq!(idle.due(limited(), 100 * MIB, now).these.len(), 0);
        idle.left.insert(alloc, 60 * MIB);
        idle.known.insert(alloc, Known::new(Size::Bytes(60 * MIB), 10, 60 * MIB, 100 * MIB, at(now, 0)));
        assert_eq!(idle.due(limited(), 90 * MIB, now).these.len(), 0);
        assert_eq!(idle.due(limited(), 90 * MIB - 1, now).these.len(), 1);
        assert!(idle.due(Vec::new(), 90 * MIB, now).these.is_empty() && idle.left.is_empty());
    }

    #[test]
    fn the_nearer_one_is_to_its_limit_the_sooner_it_is_looked_at() {
        let (alloc, now) = (AllocId([1; 16]), Instant::now());
        let after = |taken: u64, took_ms| {
            let known = Known::new(Size::Bytes(taken << 20), 1_024, 0, 1 << 40, at(now, took_ms));
            idle(&[(alloc, known)], Some(1 << 40)).look_after(now)
        };
        assert_eq!([after(0, 0), after(512, 0)], [LOOKED_EVERY; 2]);
        assert!(after(800, 0) < after(700, 0), "{:?} {:?}", after(800, 0), after(700, 0));
        assert_eq!([after(1_020, 0), after(2_000, 0)], [LOOKED_EVERY_MIN; 2]);
        assert_eq!(after(1_020, 50), Duration::from_millis(100), "it would not be measured before");
    }
}

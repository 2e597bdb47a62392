//! Which allocations are measured when, and how far beyond its limit a fast writer gets meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::agent::{AllocId, GroupSpec};

use super::activity::Activity;
use super::measure_state::{DueAllocs, MeasureState};
use super::measured::{MeasuredAlloc, Measurement, TOLERATED_BYTES_MIN};
use super::round::AgentStopped;
use super::{CHECK_EVERY, CHECK_EVERY_MIN, DiskLimits, EVERY, LimitedAlloc, QUIET_EVERY};
use crate::alloc_dir::size::Size;
use crate::cgroups::{Cgroup, CpuAccount};
use crate::lifecycle::TaskRef;
use crate::shell::usage::CpuTime;

const MIB: u64 = 1 << 20;

fn at(at: Instant, took_ms: u64) -> Measurement {
    Measurement { at, took: Duration::from_millis(took_ms) }
}

fn id(number: u8) -> AllocId {
    AllocId([number; 16])
}

fn writer(alloc: AllocId) -> TaskRef {
    TaskRef { alloc, task: 0, attempt: 1 }
}

/// One with a limit of 10 MiB that began empty.
fn limited(alloc: AllocId) -> LimitedAlloc {
    let group = Arc::new(GroupSpec::default());
    LimitedAlloc { alloc, group, limit_mb: 10, inherits: false, cleans_up: false, writers: None }
}

fn idle(known: &[(AllocId, MeasuredAlloc)], free_bytes: Option<u64>, now: Instant) -> MeasureState {
    let mut idle = MeasureState::new(now);
    idle.all_at += Duration::from_secs(3_600);
    idle.known = known.iter().copied().collect();
    idle.free_bytes = free_bytes;
    idle.settle();
    idle
}

fn ids(due: &DueAllocs) -> Vec<AllocId> {
    due.these.iter().map(|limited| limited.alloc).collect()
}

#[test]
fn who_may_have_passed_its_limit_is_measured_and_nobody_else() {
    let [near, far, new, heir] = [1, 2, 3, 4].map(id);
    let limited = |allocs: &[AllocId]| -> Arc<[LimitedAlloc]> {
        allocs.iter().map(|alloc| LimitedAlloc { inherits: *alloc == heir, ..limited(*alloc) }).collect()
    };
    let (free, now) = (100 * MIB, Instant::now());
    let known = |taken: u64| MeasuredAlloc::new(Size::Bytes(taken * MIB), 10, 0, free, at(now, 0));
    let mut idle = idle(&[(near, known(9)), (far, known(2))], None, now);
    let mut due = |allocs: &[AllocId], free| {
        let due = idle.due(&limited(allocs), free, now);
        (ids(&due), due.is_all)
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
    // What comes later begins with nothing, at the free space that there was before it, unless it takes files over.
    assert_eq!(due(&[far, new, heir], free - 8 * MIB - 1), (vec![far, heir], false));
    assert_eq!(due(&[new], free - 9 * MIB), (vec![], false));
    assert_eq!(due(&[new], free - 18 * MIB - 2), (vec![new], false));
    // Whoever has gone is not known any more.
    assert_eq!(due(&[far], free), (vec![], false));
    assert_eq!(due(&both, free - 2 * MIB), (vec![], false));
    idle.all_at = now;
    let all = idle.due(&limited(&both), free, now);
    assert_eq!((all.these.len(), all.suspects, all.is_all), (2, 0, true));
    assert_eq!(idle.due(&limited(&both), 0, now).suspects, 2);
    // One that is ended for it is not looked at again before all are.
    assert!(!MeasuredAlloc::reported(Size::Bytes(11 * MIB), at(now, 0)).may_have_passed(1));
}

#[test]
fn one_at_its_limit_that_writes_nothing_is_not_measured_over_and_over() {
    let now = Instant::now();
    let full = MeasuredAlloc::new(Size::Bytes(10 * MIB), 10, 0, 100 * MIB, at(now, 400));
    assert!(!full.may_have_passed(100 * MIB) && full.may_have_passed(100 * MIB - 1));
}

/// Containers that have counters below `dir`, each measured with 9 of its 10 MiB taken while 100 GiB were free.
fn containers(dir: &Path, count: u8, now: Instant) -> (MeasureState, Arc<[LimitedAlloc]>) {
    let (mut activity, mut all) = (BTreeMap::new(), Vec::new());
    for number in 0..count {
        let (alloc, cgroup) = (id(number), dir.join(number.to_string()));
        fs::create_dir_all(&cgroup).expect("made");
        run(dir, number, 1);
        let account = CpuAccount { cgroup: Cgroup::at(cgroup), version: 1 };
        let counters = vec![CpuTime::of(&account)];
        activity.insert(alloc, Activity::of(vec![writer(alloc)], counters).expect("it counts"));
        all.push(LimitedAlloc { writers: Some(vec![writer(alloc)]), ..limited(alloc) });
    }
    let known = MeasuredAlloc::new(Size::Bytes(9 * MIB), 10, 0, FREE, at(now, 1));
    let known: Vec<_> = (0..count).map(|number| (id(number), known)).collect();
    let mut idle = idle(&known, Some(FREE), now);
    idle.activity = activity;
    (idle, all.into())
}

const FREE: u64 = 100 << 30;

/// A container has spent so much by now.
fn run(dir: &Path, number: u8, spent: u32) {
    fs::write(dir.join(number.to_string()).join("cpuacct.usage"), format!("{spent}\n")).expect("written");
}

#[test]
fn of_a_hundred_that_others_write_beside_those_are_measured_that_have_run() {
    let (dir, now) = (tempfile::tempdir().expect("a directory"), Instant::now());
    let (mut idle, all) = containers(dir.path(), 100, now);
    let later = |seconds| now + Duration::from_secs(seconds);
    // Another process takes a gigabyte. All may have passed their limits for all that the file system tells; none has run.
    let due = idle.due(&all, FREE - (1 << 30), later(1));
    assert_eq!((ids(&due), due.suspects), (vec![], 0));
    // What they have left counts from there.
    let near = FREE - (1 << 30) - MIB;
    assert_eq!(idle.due(&all, near, later(2)).suspects, 0);
    run(dir.path(), 7, 2);
    let due = idle.due(&all, near - 1, later(3));
    assert_eq!((ids(&due), due.suspects), (vec![id(7)], 1));
    // It stays suspect until it is measured, whoever else has not run.
    assert_eq!(ids(&idle.due(&all, near - 2, later(4))), [id(7)]);
    // One whose counter is gone has ended, and may have written before.
    fs::remove_dir_all(dir.path().join("9")).expect("removed");
    idle.activity.insert(id(9), activity_of_the_gone(dir.path()));
    let due = idle.due(&all, near - 2 * MIB, later(5));
    assert_eq!(ids(&due), [id(7), id(9)]);
}

/// What was known of a container before its cgroup was removed.
fn activity_of_the_gone(dir: &Path) -> Activity {
    let cgroup = dir.join("gone");
    fs::create_dir(&cgroup).expect("made");
    fs::write(cgroup.join("cpuacct.usage"), "1\n").expect("written");
    let counter = CpuTime::of(&CpuAccount { cgroup: Cgroup::at(&cgroup), version: 1 });
    let activity = Activity::of(vec![writer(id(9))], vec![counter]).expect("it counts");
    // A plain file that is open stays readable; the kernel's say that they are gone.
    fs::write(cgroup.join("cpuacct.usage"), "").expect("written");
    activity
}

#[test]
fn what_counters_do_not_cover_is_measured_whether_it_has_run_or_not() {
    let (dir, now) = (tempfile::tempdir().expect("a directory"), Instant::now());
    let (mut idle, all) = containers(dir.path(), 4, now);
    let mut changed: Vec<LimitedAlloc> = all.to_vec();
    // Another start of its task, a second task, and one that is being started, of which nobody knows what it writes.
    changed[1].writers = Some(vec![TaskRef { attempt: 2, ..writer(id(1)) }]);
    changed[2].writers = Some(vec![writer(id(2)), TaskRef { task: 1, ..writer(id(2)) }]);
    changed[3].writers = None;
    let due = idle.due(&changed.into(), FREE - MIB - 1, now + Duration::from_secs(1));
    assert_eq!((ids(&due), due.suspects), (vec![id(1), id(2), id(3)], 3));
}

#[test]
fn idle_allocations_are_measured_once_a_minute_and_others_with_all() {
    let (dir, now) = (tempfile::tempdir().expect("a directory"), Instant::now());
    let (mut idle, all) = containers(dir.path(), 3, now);
    run(dir.path(), 2, 2);
    idle.all_at = now + EVERY;
    // Nothing is missed that another one hides by what it gives back.
    let due = idle.due(&all, FREE + MIB, now + EVERY);
    assert_eq!((ids(&due), due.is_all), (vec![id(2)], true));
    idle.all_at = now + QUIET_EVERY;
    assert_eq!(ids(&idle.due(&all, FREE, now + QUIET_EVERY)), [0, 1, 2].map(id));
}

#[test]
fn counters_are_read_no_oftener_than_is_worth_it() {
    let (dir, now) = (tempfile::tempdir().expect("a directory"), Instant::now());
    let (mut idle, all) = containers(dir.path(), 1, now);
    let known = idle.known[&id(0)];
    let waits = |beyond: u64| {
        let free = known.alarm_at_free_bytes - beyond;
        known.due_after(at(now, 2), free) - now
    };
    // Two milliseconds for a thousand of them: a fiftieth of the time, and half of it once somebody may be far beyond.
    assert_eq!([waits(1), waits(16 * MIB)], [Duration::from_millis(100); 2]);
    assert_eq!([waits(64 * MIB), waits(1 << 30)], [6, 4].map(Duration::from_millis));
    // Nobody is measured meanwhile whose counter would tell that it need not be.
    idle.due(&all, FREE - MIB - 1, now);
    run(dir.path(), 0, 2);
    let due = idle.due(&all, FREE - 2 * MIB - 2, now);
    assert_eq!((ids(&due), due.suspects), (vec![], 1));
}

#[test]
fn a_look_has_nothing_to_do_while_nobody_is_near_its_limit_and_nobody_comes() {
    let (alloc, now) = (id(1), Instant::now());
    let known = MeasuredAlloc::new(Size::Bytes(8 * MIB), 10, 0, 100 * MIB, at(now, 0));
    let (mut idle, all) = (idle(&[(alloc, known)], None, now), Arc::from([limited(alloc)]));
    assert!(!idle.is_calm(&all, 100 * MIB, now), "the first look is none");
    idle.due(&all, 100 * MIB, now);
    idle.settle();
    assert!(idle.is_calm(&all, 98 * MIB, now) && !idle.is_calm(&all, 98 * MIB - 1, now));
    assert_eq!(idle.free_bytes, Some(98 * MIB));
    let others: Arc<[LimitedAlloc]> = Arc::from([limited(alloc), limited(id(2))]);
    assert!(!idle.is_calm(&others, 100 * MIB, now), "somebody has come");
    assert!(!idle.is_calm(&all, 100 * MIB, now + Duration::from_secs(4_000)), "all are due");
    idle.known.insert(alloc, MeasuredAlloc::unmeasured(None, at(now, 0)));
    idle.settle();
    assert!(!idle.is_calm(&all, u64::MAX - 1, now), "it could not be measured");
}

/// Counts how often one of 200,000 files, near its limit, is measured within a minute, and how much the file system may lose in
/// between, while `written` bytes a second are written to it.
fn minute_beside(written: u64) -> (u32, u64) {
    let begun = Instant::now();
    let took = Duration::from_millis(400);
    let room_at = |ms: u64| (1 << 40) - written / 1_000 * ms;
    let measured = |ms| MeasuredAlloc::new(Size::Bytes(499 * MIB), 500, 0, room_at(ms), at(begun, 0));
    let (mut known, mut times, mut unseen, mut ms) = (measured(0), 0, 0, 0);
    known.measured.took = took;
    while ms < 60_000 {
        let now = begun + Duration::from_millis(ms);
        if known.may_have_passed(room_at(ms)) && known.due_at(room_at(ms)) <= now {
            times += 1;
            unseen = unseen.max(known.alarm_at_free_bytes - room_at(ms));
            known = MeasuredAlloc { measured: Measurement { at: now, took }, ..measured(ms) };
            ms += 400;
        }
        ms += 25;
    }
    (times, unseen)
}

#[test]
fn what_takes_long_to_measure_is_measured_the_oftener_the_more_it_may_have_written() {
    assert_eq!(minute_beside(0).0, 0);
    // Within 2 % of the time, and what the file system lost is little.
    let (times, unseen) = minute_beside(100 << 10);
    assert!(times <= 3 && unseen <= TOLERATED_BYTES_MIN, "{times} {unseen}");
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
    let mut known = MeasuredAlloc::unmeasured(None, at(now, 0));
    let mut pauses = Vec::new();
    for _ in 0..20 {
        assert!(known.may_have_passed(u64::MAX));
        pauses.push(known.due_at(u64::MAX) - now);
        known = MeasuredAlloc::unmeasured(Some(&known), at(now, 0));
    }
    assert_eq!(pauses[..2], [CHECK_EVERY_MIN * 2, CHECK_EVERY_MIN * 4]);
    assert!(pauses.is_sorted() && pauses[19] == EVERY, "{pauses:?}");
    assert_eq!(known.check_after(0, now), EVERY);
    // Nor is what takes long to find out.
    assert_eq!(MeasuredAlloc::unmeasured(None, at(now, 1_000)).due_at(0) - now, Duration::from_secs(50));
}

#[test]
fn what_cleans_up_is_measured_first_and_may_take_as_much_again() {
    let (alloc, now) = (id(1), Instant::now());
    let known = [(alloc, MeasuredAlloc::reported(Size::Bytes(60 * MIB), at(now, 0)))];
    let mut idle = idle(&known, Some(100 * MIB), now);
    let limited =
        || -> Arc<[LimitedAlloc]> { Arc::from([LimitedAlloc { cleans_up: true, ..limited(alloc) }]) };
    assert_eq!(idle.due(&limited(), 100 * MIB, now).these.len(), 1);
    // What cannot be counted is not counted again at once.
    idle.known.insert(alloc, MeasuredAlloc::unmeasured(None, at(now, 2_000)));
    assert_eq!(idle.due(&limited(), 100 * MIB, now).these.len(), 0);
    idle.left.insert(alloc, 60 * MIB);
    idle.known.insert(alloc, MeasuredAlloc::new(Size::Bytes(60 * MIB), 10, 60 * MIB, 100 * MIB, at(now, 0)));
    assert_eq!(idle.due(&limited(), 90 * MIB, now).these.len(), 0);
    assert_eq!(idle.due(&limited(), 90 * MIB - 1, now).these.len(), 1);
    assert!(idle.due(&Arc::default(), 90 * MIB, now).these.is_empty() && idle.left.is_empty());
}

#[test]
fn the_nearer_one_is_to_its_limit_the_sooner_it_is_looked_at() {
    let (alloc, now) = (id(1), Instant::now());
    let after = |taken: u64, took_ms, free: u64| {
        let known = MeasuredAlloc::new(Size::Bytes(taken << 20), 1_024, 0, 1 << 40, at(now, took_ms));
        idle(&[(alloc, known)], Some(free), now).check_after(now)
    };
    let full = 1 << 40;
    assert_eq!([after(0, 0, full), after(512, 0, full)], [CHECK_EVERY; 2]);
    assert!(after(800, 0, full) < after(700, 0, full));
    assert_eq!([after(1_020, 0, full), after(2_000, 0, full)], [CHECK_EVERY_MIN; 2]);
    let beyond = full - 5 * MIB;
    assert_eq!(after(1_020, 50, beyond), Duration::from_millis(100), "it would not be measured before");
}

#[test]
fn limits_are_enforced_after_a_measurement_has_failed() {
    let shared = DiskLimits::default().shared;
    let idle = shared.begin().expect("none goes on");
    assert!(shared.begin().is_none(), "one at a time");
    shared.on_checked(Err(Box::new("a fault")), idle);
    let again = shared.begin().expect("it begins again");
    assert!(again.known.is_empty(), "everything is measured");
    shared.on_checked(Ok(Err(AgentStopped)), again);
    assert!(shared.begin().is_none(), "the agent is gone");
}

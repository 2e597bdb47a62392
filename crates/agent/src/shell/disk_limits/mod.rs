//! Enforces the disk limits of groups: the files of allocations are measured, with their logs and the writable layers of their
//! containers, and an allocation that takes more than its group asked for fails, by SIGKILL and at once.
//!
//! No allocation can have passed its limit before the file system has lost as much free space as the allocation had left when it was
//! measured. So free space is read often, the more so the less is left to any of them, and those that may have passed their limits by
//! then are measured at once. All are measured from time to time as well, since space that others free hides what one takes.
//!
//! A check begins with what costs least: a container that has used no processor time since has written nothing (`activity`), and is
//! not measured. Measuring many files takes long; an allocation that cannot be far beyond its limit therefore waits until it may be, or
//! until measuring it takes no more than a small part of the time. Otherwise files would be counted all day because others write.

mod activity;
mod measure_state;
mod measured;
mod round;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::agent::{AllocId, GroupSpec};
use tokio::sync::mpsc;

use self::measure_state::MeasureState;
use self::measured::PART_OF_TIME;
use self::round::{AgentStopped, MeasureRound};
use super::Agent;
use super::data_dir::DataDir;
use crate::lifecycle::{Alloc, Event, TaskRef};

/// How often all are checked.
const EVERY: Duration = Duration::from_secs(10);

/// How often also those are measured whose tasks have not run since.
const QUIET_EVERY: Duration = Duration::from_secs(60);

/// How often free space is checked while nobody is near its limit, and once somebody is. What is written meanwhile shows
/// only then.
const CHECK_EVERY: Duration = Duration::from_millis(250);
const CHECK_EVERY_MIN: Duration = Duration::from_millis(25);

/// How old the list of allocations may be though no event has changed any.
const LISTED_EVERY: Duration = Duration::from_secs(1);

/// What was measured, and when to measure again.
pub(super) struct DiskLimits {
    shared: Arc<SharedState>,
    /// Those that have a limit.
    list: Arc<[LimitedAlloc]>,
    listed_at: Instant,
    /// Something may have changed since.
    is_stale: bool,
}

/// Shared with the thread that measures.
struct SharedState {
    /// None while a round is running.
    idle: Mutex<Option<MeasureState>>,
    held_bytes: AtomicU64,
    /// The interval between checks of free space, in milliseconds.
    check_after_ms: AtomicU64,
}

/// An allocation that has a limit.
#[derive(Debug, Clone)]
struct LimitedAlloc {
    alloc: AllocId,
    group: Arc<GroupSpec>,
    limit_mb: u32,
    /// It takes files over from the one before it.
    inherits: bool,
    /// Only poststop tasks are left to run: they may take as much again as there was then.
    cleans_up: bool,
    /// The tasks that run, where nobody else writes to its files.
    writers: Option<Vec<TaskRef>>,
}

impl LimitedAlloc {
    /// None of one that has no files, as what waits to begin. Tasks that are only pretended write nothing.
    fn of(alloc: &Alloc) -> Option<Self> {
        let spec = alloc.spec();
        let group = spec.group.clone();
        let writes = group.tasks.iter().any(|task| task.driver != "mock_driver");
        if !writes || group.disk_mb == 0 || !alloc.has_files() {
            return None;
        }
        let (limit_mb, inherits) = (group.disk_mb, !spec.previous.is_empty());
        let (cleans_up, writers) = (alloc.only_cleans_up(), alloc.only_writers());
        Some(Self { alloc: alloc.id(), group, limit_mb, inherits, cleans_up, writers })
    }

    fn is_same(&self, other: &Self) -> bool {
        let rest = |of: &Self| (of.alloc, of.limit_mb, of.inherits, of.cleans_up);
        rest(self) == rest(other) && Arc::ptr_eq(&self.group, &other.group) && self.writers == other.writers
    }
}

impl Default for DiskLimits {
    fn default() -> Self {
        let now = Instant::now();
        let shared = SharedState {
            idle: Mutex::new(Some(MeasureState::new(now))),
            held_bytes: AtomicU64::new(0),
            check_after_ms: AtomicU64::new(millis(CHECK_EVERY)),
        };
        Self { shared: Arc::new(shared), list: Arc::default(), listed_at: now, is_stale: true }
    }
}

impl DiskLimits {
    /// What all that was measured last took together.
    pub(super) fn held_bytes(&self) -> u64 {
        self.shared.held_bytes.load(Ordering::Relaxed)
    }

    /// An allocation may have changed.
    pub(super) fn on_change(&mut self) {
        self.is_stale = true;
    }

    /// When to check free space next.
    fn next_check(&self) -> tokio::time::Instant {
        let after = Duration::from_millis(self.shared.check_after_ms.load(Ordering::Relaxed));
        tokio::time::Instant::now() + after
    }

    /// Those that have a limit; the same list as before if they are the same.
    fn list<'a>(&mut self, allocs: impl Iterator<Item = &'a Alloc>) -> Arc<[LimitedAlloc]> {
        let now = Instant::now();
        if self.is_stale || now >= self.listed_at + LISTED_EVERY {
            let list: Vec<LimitedAlloc> = allocs.filter_map(LimitedAlloc::of).collect();
            let is_same = self.list.len() == list.len()
                && self.list.iter().zip(&list).all(|(before, now)| before.is_same(now));
            if !is_same {
                self.list = list.into();
            }
            (self.listed_at, self.is_stale) = (now, false);
        }
        self.list.clone()
    }
}

impl SharedState {
    /// Begins, unless that has begun.
    fn begin(&self) -> Option<MeasureState> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A look has ended; with the agent, or by a fault: limits are enforced after that as before it.
    fn on_checked(&self, outcome: std::thread::Result<Result<(), AgentStopped>>, idle: MeasureState) {
        match outcome {
            Ok(Ok(())) => {
                let used_bytes = idle.known.values().map(|known| known.bytes).sum();
                self.held_bytes.store(used_bytes, Ordering::Relaxed);
                self.end(idle);
            }
            Ok(Err(AgentStopped)) => {}
            Err(_) => {
                tracing::error!("a measurement of disk use failed: everything is measured again");
                self.end(MeasureState::new(Instant::now()));
            }
        }
    }

    fn end(&self, idle: MeasureState) {
        self.check_after_ms.store(millis(idle.check_after(Instant::now())), Ordering::Relaxed);
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(idle);
    }
}

impl Agent {
    /// A task has started, and may write what its allocation has left before free space is checked again.
    pub(super) fn check_disk_soon(&mut self) {
        self.disk_check_at = self.disk_check_at.min(tokio::time::Instant::now() + CHECK_EVERY_MIN);
    }

    /// Measures what has to be, if it is time.
    pub(super) fn check_disk(&mut self) {
        self.disk_check_at = self.disk_limits.next_check();
        let limited = self.disk_limits.list(self.node.allocs());
        if limited.is_empty() {
            return;
        }
        let shared = self.disk_limits.shared.clone();
        let Some(mut idle) = shared.begin() else { return };
        let (data, events) = (self.data.clone(), self.context.events.clone());
        tokio::task::spawn_blocking(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| run_round(&mut idle, &limited, &data, &events)));
            shared.on_checked(outcome, idle);
        });
    }
}

/// Looks at free space, and measures who may have passed its limit.
fn run_round(
    idle: &mut MeasureState,
    limited: &Arc<[LimitedAlloc]>,
    data: &DataDir,
    events: &mpsc::Sender<Event>,
) -> Result<(), AgentStopped> {
    let now = Instant::now();
    // Where that cannot be found out, only the time counts.
    let free_bytes = free_bytes(data.path()).unwrap_or(u64::MAX);
    if idle.is_calm(limited, free_bytes, now) {
        return Ok(());
    }
    let due = idle.due(limited, free_bytes, now);
    let mut round = MeasureRound::new(idle, &due, free_bytes, events);
    due.these.iter().try_for_each(|limited| round.measure(limited, &data.paths(limited.alloc)))?;
    if due.is_all {
        idle.all_at = Instant::now() + EVERY.max(now.elapsed() * PART_OF_TIME);
    }
    idle.settle();
    Ok(())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The free space of a file system, that of its administrator with it.
fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bfree.saturating_mul(found.f_frsize))
}

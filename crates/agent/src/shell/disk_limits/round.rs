//! Measures allocations one after the other: files that have names, and those that are deleted and still open.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::sync::mpsc;

use super::LimitedAlloc;
use super::activity::{self, Activity};
use super::measure_state::{DueAllocs, MeasureState};
use super::measured::{MeasuredAlloc, Measurement};
use crate::alloc_dir::deleted::{Holder, held_bytes};
use crate::alloc_dir::size::{Size, measure};
use crate::keeper::plan::StartRecord;
use crate::lifecycle::Event;
use crate::paths::AllocPaths;
use crate::proc;
use crate::shell::usage::ProcessTree;

/// What is paused for as often as the parts of the time say: that all are measured meanwhile bounds it in any case.
const MEASURED_MAX: Duration = Duration::from_secs(60);

/// Where a container has directories of its allocation that lie on the file system of the agent's data.
const IN_CONTAINERS: [&str; 2] = ["/alloc", "/local"];

/// A round under way.
pub(super) struct MeasureRound<'a> {
    idle: &'a mut MeasureState,
    /// When this round began.
    free_bytes: u64,
    events: &'a mpsc::Sender<Event>,
    /// All processes of the machine, once they had to be listed, and how long that took.
    tree: Option<(ProcessTree, Duration)>,
    /// How many are measured.
    number: u32,
    /// How many may have passed their limits.
    suspects: u32,
}

/// The agent has stopped and receives no more events.
pub(super) struct AgentStopped;

impl<'a> MeasureRound<'a> {
    pub(super) fn new(
        idle: &'a mut MeasureState,
        due: &DueAllocs,
        free_bytes: u64,
        events: &'a mpsc::Sender<Event>,
    ) -> Self {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let (number, suspects) = (number(due.these.len()), number(due.suspects));
        Self { idle, free_bytes, events, tree: None, number, suspects }
    }

    pub(super) fn measure(&mut self, limited: &LimitedAlloc, paths: &AllocPaths) -> Result<(), AgentStopped> {
        let (alloc, began) = (limited.alloc, Instant::now());
        // Before its files: what is written while they are measured shows the next time.
        let activity = Activity::begin(limited, paths, self.idle.activity.remove(&alloc));
        let known = match measure(paths.root()) {
            // What is there cannot be counted, and who is to clean it up has not written it.
            Ok(Size::TooMany | Size::TooDeep)
                if limited.cleans_up && !self.idle.left.contains_key(&alloc) =>
            {
                self.unmeasured(limited, began)
            }
            Ok(named) => self.judge(limited, paths, named, began)?,
            // One that has ended meanwhile is no failure.
            Err(errno) => {
                tracing::debug!(%alloc, %errno, "could not measure an allocation's files");
                self.unmeasured(limited, began)
            }
        };
        if let Some(activity) = activity.filter(|_| known.failures == 0) {
            self.idle.activity.insert(alloc, activity);
        }
        self.idle.known.insert(alloc, known);
        Ok(())
    }

    /// One whose files take that much, those without names left aside.
    fn judge(
        &mut self,
        limited: &LimitedAlloc,
        paths: &AllocPaths,
        named: Size,
        began: Instant,
    ) -> Result<MeasuredAlloc, AgentStopped> {
        let LimitedAlloc { alloc, limit_mb, cleans_up, .. } = *limited;
        let left = if cleans_up { *self.idle.left.entry(alloc).or_insert(named.bytes()) } else { 0 };
        // The rest is not looked for while one goes on writing that has passed its limit without it.
        let alone = named.excess(limit_mb, left, 0);
        let (deleted, outcome) =
            if alone.is_some() { (0, Duration::ZERO) } else { self.deleted_bytes(paths) };
        let (size, measured) = (named.and(deleted), self.measured(began, outcome));
        let Some(why) = alone.or_else(|| size.excess(limit_mb, left, deleted)) else {
            return Ok(MeasuredAlloc::new(size, limit_mb, left, self.free_bytes, measured));
        };
        let overran = Event::Overran { alloc, cleaning_up: cleans_up, why };
        self.events.blocking_send(overran).map_err(|_| AgentStopped)?;
        Ok(MeasuredAlloc::reported(size, measured))
    }

    fn unmeasured(&self, limited: &LimitedAlloc, began: Instant) -> MeasuredAlloc {
        let measured = self.measured(began, Duration::ZERO);
        MeasuredAlloc::unmeasured(self.idle.known.get(&limited.alloc), measured)
    }

    /// One that was begun with then is measured; with a share of what was `outcome` at for all of them.
    fn measured(&self, began: Instant, outcome: Duration) -> Measurement {
        let at = Instant::now();
        let shared = self.tree.as_ref().map_or(Duration::ZERO, |(_, took)| *took / self.number);
        let took = at.saturating_duration_since(began).saturating_sub(outcome) + shared;
        Measurement { at, took: took.saturating_mul(self.suspects).min(MEASURED_MAX) }
    }

    /// What the tasks of an allocation hold of files that they have deleted, and how long it took to look at all processes, if
    /// that was done for it.
    fn deleted_bytes(&mut self, paths: &AllocPaths) -> (u64, Duration) {
        let Ok(root) = paths.root().metadata() else { return (0, Duration::ZERO) };
        let before = self.tree.as_ref().map(|(_, took)| *took);
        let keepers = paths.root().join("keepers").read_dir().into_iter().flatten().flatten();
        let holders: Vec<Holder> = keepers
            .filter_map(|keeper| self.holder(paths, &StartRecord::read(&keeper.path()).ok()??))
            .collect();
        let outcome = match (before, &self.tree) {
            (None, Some((_, took))) => *took,
            _ => Duration::ZERO,
        };
        (held_bytes(&holders, root.dev()), outcome)
    }

    /// The processes of a start of a task, unless it has ended.
    fn holder(&mut self, paths: &AllocPaths, start: &StartRecord) -> Option<Holder> {
        // Another process may have its number by now.
        if proc::pid(start.pid).and_then(proc::start_ticks) != Some(start.pid_start_ticks) {
            return None;
        }
        if start.container.is_none() {
            // Processes' files are listed by paths without links, as that of the data directory is.
            return Some(Holder {
                pids: self.below(start),
                dirs: vec![paths.root().to_owned()],
                began_s: None,
            });
        }
        let began_s = i64::try_from(start.started_ns / 1_000_000_000).ok()?;
        let pids = match activity::account(start) {
            Some(account) => account.cgroup.processes().into_iter().map(Pid::as_raw_pid).collect(),
            None => self.below(start),
        };
        Some(Holder { pids, dirs: IN_CONTAINERS.map(PathBuf::from).into(), began_s: Some(began_s) })
    }

    fn below(&mut self, start: &StartRecord) -> Vec<i32> {
        let (tree, _) = self.tree.get_or_insert_with(|| {
            let began = Instant::now();
            (ProcessTree::read(), began.elapsed())
        });
        tree.of_task(start.keeper_pid, start.pid)
    }
}

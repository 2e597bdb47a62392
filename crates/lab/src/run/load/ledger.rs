//! What the client has seen of each allocation, and when.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use crate::run::{
    client::{AllocEvent, AllocStatus, JobIds, RunClock},
    progress::TaskCounts,
};

/// Which state every allocation must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum AwaitedState {
    /// All run at the same time.
    Running,
    /// Each has ended well.
    Complete,
    /// Each has ended badly, and is not tried again.
    Failed,
}

impl AwaitedState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }

    fn is(self, status: AllocStatus) -> bool {
        match self {
            Self::Running => status == AllocStatus::Running,
            Self::Complete => status == AllocStatus::Complete,
            Self::Failed => status == AllocStatus::Failed,
        }
    }
}

/// One allocation. Times are seconds since the first request; NaN for what was not seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllocTimes {
    /// The number of its job.
    pub job: u32,
    /// It was decided where it goes, by the server's clock.
    pub planned_s: f64,
    /// The client saw it first.
    pub placed_s: f64,
    /// Its node knew it, by the node's clock.
    pub received_s: f64,
    /// The first of its tasks was started, by the node's clock.
    pub started_s: f64,
    /// The last of its tasks was started, by the node's clock.
    pub all_started_s: f64,
    /// The client saw it first in the awaited state.
    pub reached_s: f64,
    status: AllocStatus,
}

/// The times of all allocations.
#[derive(Debug)]
pub(super) struct AllocLedger {
    ids: JobIds,
    awaited: AwaitedState,
    /// Index in `allocs`, by id.
    index_by_id: HashMap<u128, usize>,
    /// In the order in which they were seen first.
    allocs: Vec<AllocTimes>,
    reached: u64,
}

impl AllocLedger {
    /// Of the jobs of that run.
    pub fn new(ids: JobIds, awaited: AwaitedState) -> Self {
        Self { ids, awaited, index_by_id: HashMap::new(), allocs: Vec::new(), reached: 0 }
    }

    /// The client has seen an allocation.
    pub fn record(&mut self, at_s: f64, clock: RunClock, event: &AllocEvent) {
        let Some(job) = self.ids.number(&event.job) else { return };
        let index = *self.index_by_id.entry(event.id).or_insert(self.allocs.len());
        if index == self.allocs.len() {
            self.allocs.push(AllocTimes {
                job,
                planned_s: f64::NAN,
                placed_s: at_s,
                received_s: f64::NAN,
                started_s: f64::NAN,
                all_started_s: f64::NAN,
                reached_s: f64::NAN,
                status: AllocStatus::Pending,
            });
        }
        let alloc = &mut self.allocs[index];
        first(&mut alloc.planned_s, clock, event.created_ns);
        first(&mut alloc.received_s, clock, event.tasks.received_ns);
        first(&mut alloc.started_s, clock, event.tasks.started_ns);
        first(&mut alloc.all_started_s, clock, event.tasks.all_started_ns);
        let (before, now) = (self.awaited.is(alloc.status), self.awaited.is(event.status));
        alloc.status = event.status;
        if now && alloc.reached_s.is_nan() {
            alloc.reached_s = at_s;
        }
        self.reached = self.reached + u64::from(now) - u64::from(before);
    }

    /// Allocations that are in the awaited state now.
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// How far all have got; so many are known to the server.
    pub fn counts(&self, created: u64) -> TaskCounts {
        TaskCounts { created, placed: self.allocs.len() as u64, running: self.reached }
    }

    /// In the order in which they were seen first.
    pub fn allocs(&self) -> &[AllocTimes] {
        &self.allocs
    }

    /// How many are in which state, for people.
    pub fn states(&self) -> String {
        let mut counts: BTreeMap<AllocStatus, u64> = BTreeMap::new();
        self.allocs.iter().for_each(|alloc| *counts.entry(alloc.status).or_default() += 1);
        let mut message = format!("{} seen", self.allocs.len());
        for (status, count) in counts {
            let _ = write!(message, ", {count} {status:?}");
        }
        message.to_lowercase()
    }
}

/// Records a time that the server or a node reports, once.
fn first(time_s: &mut f64, clock: RunClock, ns: u64) {
    if time_s.is_nan() && ns > 0 {
        *time_s = clock.at_s(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::client::TaskTimes;

    fn event(ids: JobIds, id: u128, status: AllocStatus) -> AllocEvent {
        AllocEvent { id, job: ids.id(4), status, created_ns: 0, tasks: TaskTimes::default() }
    }

    #[test]
    fn an_allocation_is_counted_while_it_is_where_it_should_be() {
        let (ids, clock) = (JobIds::new(), RunClock::start());
        let mut ledger = AllocLedger::new(ids, AwaitedState::Running);
        ledger.record(0.5, clock, &event(ids, 1, AllocStatus::Pending));
        ledger.record(0.6, clock, &event(ids, 2, AllocStatus::Running));
        assert_eq!(ledger.counts(9), TaskCounts { created: 9, placed: 2, running: 1 });
        ledger.record(0.7, clock, &event(ids, 2, AllocStatus::Failed));
        ledger.record(0.8, clock, &event(ids, 1, AllocStatus::Running));
        ledger.record(0.9, clock, &event(ids, 1, AllocStatus::Running));
        assert_eq!((ledger.reached(), ledger.states().as_str()), (1, "2 seen, 1 running, 1 failed"));
        let times = ledger.allocs()[0];
        assert_eq!((times.job, times.placed_s, times.reached_s), (4, 0.5, 0.8));
    }

    #[test]
    fn the_allocations_of_others_are_left_out() {
        let (ids, clock) = (JobIds::new(), RunClock::start());
        let mut ledger = AllocLedger::new(ids, AwaitedState::Complete);
        let stranger = AllocEvent { job: "web".to_owned(), ..event(ids, 1, AllocStatus::Complete) };
        ledger.record(0.5, clock, &stranger);
        assert_eq!((ledger.reached(), ledger.allocs().len()), (0, 0));
    }
}

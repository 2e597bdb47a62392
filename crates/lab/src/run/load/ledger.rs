//! What the client has seen of each allocation, and when.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use crate::run::{
    client::{AllocSeen, Clock, JobIds, Status},
    progress::Counts,
};

/// Which state every allocation must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Awaited {
    /// All run at the same time.
    Running,
    /// Each has ended well.
    Complete,
    /// Each has ended badly, and is not tried again.
    Failed,
}

impl Awaited {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }

    fn is(self, status: Status) -> bool {
        match self {
            Self::Running => status == Status::Running,
            Self::Complete => status == Status::Complete,
            Self::Failed => status == Status::Failed,
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
    status: Status,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Ledger {
    ids: JobIds,
    awaited: Awaited,
    /// Index in `allocs`, by id.
    places: HashMap<u128, usize>,
    /// In the order in which they were seen first.
    allocs: Vec<AllocTimes>,
    reached: u64,
}

impl Ledger {
    /// Of the jobs of that run.
    pub fn new(ids: JobIds, awaited: Awaited) -> Self {
        Self { ids, awaited, places: HashMap::new(), allocs: Vec::new(), reached: 0 }
    }

    /// The client has seen an allocation.
    pub fn saw(&mut self, at_s: f64, clock: Clock, seen: &AllocSeen) {
        let Some(job) = self.ids.number(&seen.job) else { return };
        let place = *self.places.entry(seen.id).or_insert(self.allocs.len());
        if place == self.allocs.len() {
            self.allocs.push(AllocTimes {
                job,
                planned_s: f64::NAN,
                placed_s: at_s,
                received_s: f64::NAN,
                started_s: f64::NAN,
                all_started_s: f64::NAN,
                reached_s: f64::NAN,
                status: Status::Pending,
            });
        }
        let alloc = &mut self.allocs[place];
        first(&mut alloc.planned_s, clock, seen.created_ns);
        first(&mut alloc.received_s, clock, seen.tasks.received_ns);
        first(&mut alloc.started_s, clock, seen.tasks.started_ns);
        first(&mut alloc.all_started_s, clock, seen.tasks.all_started_ns);
        let (before, now) = (self.awaited.is(alloc.status), self.awaited.is(seen.status));
        alloc.status = seen.status;
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
    pub fn counts(&self, created: u64) -> Counts {
        Counts { created, placed: self.allocs.len() as u64, running: self.reached }
    }

    /// In the order in which they were seen first.
    pub fn allocs(&self) -> &[AllocTimes] {
        &self.allocs
    }

    /// How many are in which state, for people.
    pub fn states(&self) -> String {
        let mut counts: BTreeMap<Status, u64> = BTreeMap::new();
        self.allocs.iter().for_each(|alloc| *counts.entry(alloc.status).or_default() += 1);
        let mut message = format!("{} seen", self.allocs.len());
        for (status, count) in counts {
            let _ = write!(message, ", {count} {status:?}");
        }
        message.to_lowercase()
    }
}

/// Notes a time that somebody else reports, once.
fn first(time_s: &mut f64, clock: Clock, ns: u64) {
    if time_s.is_nan() && ns > 0 {
        *time_s = clock.at_s(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::client::TaskTimes;

    fn seen(ids: JobIds, id: u128, status: Status) -> AllocSeen {
        AllocSeen { id, job: ids.id(4), status, created_ns: 0, tasks: TaskTimes::default() }
    }

    #[test]
    fn an_allocation_is_counted_while_it_is_where_it_should_be() {
        let (ids, clock) = (JobIds::new(), Clock::start());
        let mut ledger = Ledger::new(ids, Awaited::Running);
        ledger.saw(0.5, clock, &seen(ids, 1, Status::Pending));
        ledger.saw(0.6, clock, &seen(ids, 2, Status::Running));
        assert_eq!(ledger.counts(9), Counts { created: 9, placed: 2, running: 1 });
        ledger.saw(0.7, clock, &seen(ids, 2, Status::Failed));
        ledger.saw(0.8, clock, &seen(ids, 1, Status::Running));
        ledger.saw(0.9, clock, &seen(ids, 1, Status::Running));
        assert_eq!((ledger.reached(), ledger.states().as_str()), (1, "2 seen, 1 running, 1 failed"));
        let times = ledger.allocs()[0];
        assert_eq!((times.job, times.placed_s, times.reached_s), (4, 0.5, 0.8));
    }

    #[test]
    fn the_allocations_of_others_are_left_out() {
        let (ids, clock) = (JobIds::new(), Clock::start());
        let mut ledger = Ledger::new(ids, Awaited::Complete);
        let stranger = AllocSeen { job: "web".to_owned(), ..seen(ids, 1, Status::Complete) };
        ledger.saw(0.5, clock, &stranger);
        assert_eq!((ledger.reached(), ledger.allocs().len()), (0, 0));
    }
}

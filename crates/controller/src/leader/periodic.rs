//! Periodic jobs, by the time at which they are due next: a queue, so that none is ever searched for.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use berth_model::{
    JobKey, Timestamp,
    event::StateChange,
    store::{JobRow, Store},
};

use crate::follow::Follower;

/// A launch that has not been applied by then is proposed again: the log may have refused its entry.
const AGAIN: Duration = Duration::from_secs(30);
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A job that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DueLaunch {
    /// The job.
    pub job: JobKey,
    /// The first time at which it was due that no launch has dealt with.
    pub due: Timestamp,
    /// The time of its run.
    pub at: Timestamp,
}

/// Which periodic job is to be looked at when.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Periodic {
    queue: BTreeSet<(Timestamp, JobKey)>,
    /// Where each stands in the queue.
    times: HashMap<JobKey, Timestamp>,
}

impl Follower for Periodic {
    fn of(store: &Store) -> Self {
        let mut all = Self::default();
        store.jobs().iter().for_each(|(_, row)| all.wait_for(row));
        all
    }

    fn on_change(&mut self, store: &Store, change: &StateChange, _at: Timestamp) {
        match change {
            StateChange::JobRegistered(slot)
            | StateChange::JobDeregistered(slot)
            | StateChange::JobLaunched(slot) => {
                store.jobs().row(*slot).into_iter().for_each(|row| self.wait_for(row));
            }
            StateChange::JobCollected(_, key) | StateChange::JobPurged(_, key) => self.forget(key),
            _ => {}
        }
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.queue.first().map(|(at, _)| *at)
    }
}

impl Periodic {
    /// A job that is due now; none when no other is.
    pub fn due(&mut self, store: &Store, now: Timestamp) -> Option<DueLaunch> {
        while let Some((_, job)) = self.queue.first().filter(|(at, _)| *at <= now).cloned() {
            self.forget(&job);
            let Some(row) = store.job(&job) else { continue };
            match row.due() {
                Some(due) if due <= now => {
                    self.wait(&job, now.after(AGAIN));
                    return Some(DueLaunch { at: run_time(row, due, now), job, due });
                }
                later => later.into_iter().for_each(|at| self.wait(&job, at)),
            }
        }
        None
    }

    fn wait_for(&mut self, row: &JobRow) {
        self.forget(&row.key);
        row.due().into_iter().for_each(|at| self.wait(&row.key, at));
    }

    fn wait(&mut self, job: &JobKey, at: Timestamp) {
        self.queue.insert((at, job.clone()));
        self.times.insert(job.clone(), at);
    }

    fn forget(&mut self, job: &JobKey) {
        if let Some((job, at)) = self.times.remove_entry(job) {
            self.queue.remove(&(at, job));
        }
    }
}

/// When a job was due more than once meanwhile, one run now makes up for all of them.
fn run_time(row: &JobRow, due: Timestamp, now: Timestamp) -> Timestamp {
    let missed = row.due_after(due).is_some_and(|next| next <= now);
    if missed { Timestamp(now.0 / NANOS_PER_SECOND * NANOS_PER_SECOND) } else { due }
}

//! When periodic jobs are due, and whether an earlier run still lives.

use minicbor::{Decode, Encode};

use super::{JobRow, JobStatus, Jobs};
use crate::{ids::JobKey, job::Schedule, time::Timestamp};

/// The last time at which a periodic job was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Launch {
    /// The time of the run, which its id carries; every time up to it at which the job was due is dealt with.
    #[n(0)]
    pub at: Timestamp,
    /// It was left out, because an earlier run had not ended.
    #[n(1)]
    pub overlapped: bool,
    /// It makes up for this time and all after it at which the job was due while no server led. Not before version 5.
    #[n(2)]
    #[cbor(default)]
    pub missed_since: Option<Timestamp>,
}

impl JobRow {
    /// The first time at which it is due and that no launch has dealt with: it may be past. None when it is not run by
    /// the clock, or never again.
    pub fn due(&self) -> Option<Timestamp> {
        let launched = self.launch.map_or_else(Timestamp::default, |launch| launch.at);
        self.due_after(launched.max(self.current().submitted_at))
    }

    /// The first time after another one at which it is due.
    pub fn due_after(&self, after: Timestamp) -> Option<Timestamp> {
        Schedule::of(self.job().clock()?)?.next(after)
    }
}

impl Jobs {
    /// Whether a run of a periodic job has not ended.
    pub(super) fn has_living_run(&self, key: &JobKey) -> bool {
        let JobKey { namespace, id } = key;
        // A dot comes right after a dash.
        let (first, next) = (format!("{id}/periodic-"), format!("{id}/periodic."));
        let runs = self.range(JobKey::new(namespace, &first)..JobKey::new(namespace, &next));
        runs.rev().filter_map(|(_, slot)| self.row(slot)).any(|run| run.status() != JobStatus::Dead)
    }
}

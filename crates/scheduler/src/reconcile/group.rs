//! A group with a count: keep what runs as wished, end what is too much, replace what is gone.

use std::collections::BTreeSet;

use berth_model::{
    Timestamp,
    alloc::{ClientStatus, DesiredStatus, StopReason},
    job::{Group, Job},
    store::Store,
};

use super::{
    Changes, Existing, Missing, lose_ending,
    reschedule::{Verdict, verdict},
    stop,
    wanted::{Fresh, Wanted},
};
use crate::place::Ask;

pub(super) fn reconcile(
    store: &Store,
    (job, position, group): (&Job, u16, &Group),
    existing: &[&Existing<'_>],
    (now, room): (Timestamp, usize),
    changes: &mut Changes,
) {
    let mut wanted = Count { left: group.count, room, taken: BTreeSet::new(), replacing: Vec::new() };
    lose_ending(existing.iter().copied(), changes);
    let (live, ended): (Vec<&Existing<'_>>, Vec<_>) = existing
        .iter()
        .copied()
        .filter(|e| e.row.is_wanted() || e.row.is_terminal())
        .partition(|e| e.row.is_wanted());
    for done in ended.iter().filter(|e| counts_as_done(job, e)) {
        wanted.keep(done);
    }
    for alloc in live {
        if wanted.left > 0 && wanted.is_full() && (alloc.node_gone || !alloc.is_current) {
            changes.more = true;
            wanted.keep(alloc);
        } else if alloc.node_gone {
            changes.stops.push(stop(alloc, StopReason::NodeLost));
            wanted.replace(alloc, Missing::default());
        } else if wanted.left == 0 {
            changes.stops.push(stop(alloc, StopReason::NotNeeded));
        } else if alloc.is_current {
            wanted.keep(alloc);
        } else {
            changes.stops.push(stop(alloc, StopReason::JobUpdated));
            let ask = Ask { prefer: Some(alloc.row.node), ..Ask::default() };
            wanted.replace(alloc, Missing { ask, ..Missing::default() });
        }
    }
    for failed in ended.iter().filter(|e| needs_verdict(e)) {
        consider_failed(store, group, failed, now, &mut wanted, changes);
    }
    changes.wanted.push(wanted.into_wanted((position, group), &ended));
}

/// A batch allocation that ended well is done for good, as long as the job wishes the same.
fn counts_as_done(job: &Job, alloc: &Existing<'_>) -> bool {
    job.job_type.runs_to_completion()
        && alloc.row.client == ClientStatus::Complete
        && alloc.is_current
        && alloc.row.desired == DesiredStatus::Run
}

fn needs_verdict(alloc: &Existing<'_>) -> bool {
    alloc.row.client == ClientStatus::Failed && alloc.is_current && alloc.row.desired == DesiredStatus::Run
}

fn consider_failed(
    store: &Store,
    group: &Group,
    failed: &Existing<'_>,
    now: Timestamp,
    wanted: &mut Count,
    changes: &mut Changes,
) {
    if wanted.left == 0 || store.allocs().extra(failed.slot).is_some_and(|extra| extra.next.is_some()) {
        return;
    }
    if wanted.is_full() {
        changes.more = true;
        return wanted.keep(failed);
    }
    match verdict(store, failed.slot, &group.reschedule, now) {
        Verdict::Now(reschedules) => {
            let ask = Ask { avoid: Some(failed.row.node), ..Ask::default() };
            wanted.replace(failed, Missing { ask, reschedules, ..Missing::default() });
        }
        Verdict::Later(at) => {
            wanted.keep(failed);
            changes.retry_at = Some(changes.retry_at.map_or(at, |earlier| earlier.min(at)));
        }
        Verdict::Never => wanted.keep(failed),
    }
}

/// How many allocations are still to be accounted for, and which names are taken.
struct Count {
    left: u32,
    /// Allocations that may be replaced.
    room: usize,
    taken: BTreeSet<u32>,
    replacing: Vec<Missing>,
}

impl Count {
    /// Whether no more may be replaced for now.
    fn is_full(&self) -> bool {
        self.replacing.len() >= self.room
    }

    fn keep(&mut self, alloc: &Existing<'_>) {
        self.left = self.left.saturating_sub(1);
        self.taken.insert(alloc.row.name_index);
    }

    fn replace(&mut self, alloc: &Existing<'_>, missing: Missing) {
        if self.left == 0 {
            return;
        }
        self.keep(alloc);
        let ask = Ask { name_index: alloc.row.name_index, ..missing.ask };
        self.replacing.push(Missing { ask, previous: Some(alloc.row.id), ..missing });
    }

    /// What is left is new, with the lowest names that are free.
    fn into_wanted(self, (position, group): (u16, &Group), ended: &[&Existing<'_>]) -> Wanted {
        let Self { left: count, taken, replacing, .. } = self;
        let before = ended.iter().filter(|_| group.disk.sticky);
        let sticky = before.map(|e| (e.row.name_index, e.row.node)).collect();
        Wanted { group: position, replacing, fresh: Fresh::Named { count, taken, sticky } }
    }
}

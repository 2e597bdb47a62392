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
};
use crate::place::Ask;

pub(super) fn reconcile(
    store: &Store,
    (job, position, group): (&Job, u16, &Group),
    existing: &[&Existing<'_>],
    now: Timestamp,
    changes: &mut Changes,
) {
    let mut wanted =
        Wanted { group: position, left: group.count, taken: BTreeSet::new(), missing: Vec::new() };
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
        if alloc.node_gone {
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
    wanted.fill(group, &ended, changes);
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
    wanted: &mut Wanted,
    changes: &mut Changes,
) {
    if wanted.left == 0 || store.allocs().extra(failed.slot).is_some_and(|extra| extra.next.is_some()) {
        return;
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
struct Wanted {
    group: u16,
    left: u32,
    taken: BTreeSet<u32>,
    missing: Vec<Missing>,
}

impl Wanted {
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
        self.missing.push(Missing { ask, previous: Some(alloc.row.id), ..missing });
    }

    /// What is left is new, with the lowest names that are free.
    fn fill(self, group: &Group, ended: &[&Existing<'_>], changes: &mut Changes) {
        let Self { group: position, left, taken, missing } = self;
        changes.missing.extend(missing.into_iter().map(|missing| (position, missing)));
        let names = (0_u32..).filter(|name| !taken.contains(name)).take(left as usize);
        changes.missing.extend(names.map(|name_index| {
            let sticky =
                group.disk.sticky.then(|| ended.iter().rev().find(|e| e.row.name_index == name_index));
            let prefer = sticky.flatten().map(|e| e.row.node);
            (position, Missing { ask: Ask { name_index, prefer, ..Ask::default() }, ..Missing::default() })
        }));
    }
}

//! The measurements of all allocations between two checks of free space, and which allocations are due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::agent::AllocId;

use super::activity::Activity;
use super::measured::{MeasuredAlloc, Measurement, until_removed};
use super::{CHECK_EVERY, CHECK_EVERY_MIN, EVERY, LimitedAlloc, QUIET_EVERY};
use crate::alloc_dir::size::Size;

/// What is known between two rounds of measuring.
pub(super) struct MeasureState {
    /// When all are due.
    pub(super) all_at: Instant,
    pub(super) known: BTreeMap<AllocId, MeasuredAlloc>,
    /// The disk usage when nothing but poststop tasks was left to run, in bytes.
    pub(super) left: BTreeMap<AllocId, u64>,
    /// Activity of allocations that were measured and have nothing but containers.
    pub(super) activity: BTreeMap<AllocId, Activity>,
    /// When counters were read last, and how long that took.
    counters: Measurement,
    /// Free space at the last check; none before that.
    pub(super) free_bytes: Option<u64>,
    /// Those that the rest was brought up to date with.
    limited: Arc<[LimitedAlloc]>,
    /// While there is no less free space than this, none can have passed its limit.
    alarm_at_free_bytes: u64,
}

/// What is to be measured.
pub(super) struct DueAllocs {
    pub(super) these: Vec<LimitedAlloc>,
    /// How many may have passed their limits, whether or not they are measured now.
    pub(super) suspects: usize,
    pub(super) is_all: bool,
}

/// Whether the counters of those that may have passed their limits were read, and who has spent nothing.
struct InactiveAllocs {
    were_read: bool,
    these: BTreeSet<AllocId>,
}

impl MeasureState {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            all_at: now + EVERY,
            known: BTreeMap::new(),
            left: BTreeMap::new(),
            activity: BTreeMap::new(),
            counters: Measurement { at: now, took: Duration::ZERO },
            free_bytes: None,
            limited: Arc::default(),
            alarm_at_free_bytes: u64::MAX,
        }
    }

    /// Whether a look that finds so much free space has nothing to do: who is there is the same as before, and none of them can
    /// have passed its limit.
    pub(super) fn is_calm(&mut self, limited: &Arc<[LimitedAlloc]>, free_bytes: u64, now: Instant) -> bool {
        let is_calm = Arc::ptr_eq(&self.limited, limited)
            && free_bytes >= self.alarm_at_free_bytes
            && now < self.all_at;
        if is_calm {
            self.free_bytes = Some(free_bytes);
        }
        is_calm
    }

    /// Those that are to be measured now.
    pub(super) fn due(&mut self, limited: &Arc<[LimitedAlloc]>, free_bytes: u64, now: Instant) -> DueAllocs {
        self.follow(limited, free_bytes, now);
        let is_all = self.all_at <= now;
        let quiet = self.spare_quiet(limited, free_bytes, now);
        let suspects = self.known.values().filter(|known| known.may_have_passed(free_bytes)).count();
        let is_due = |limited: &&LimitedAlloc| {
            if is_all {
                self.is_due_with_all(limited, &quiet, now)
            } else {
                self.is_due(limited, &quiet, free_bytes, now)
            }
        };
        DueAllocs { these: limited.iter().filter(is_due).cloned().collect(), suspects, is_all }
    }

    /// What is known is of these.
    fn follow(&mut self, limited: &Arc<[LimitedAlloc]>, free_bytes: u64, now: Instant) {
        let before = self.free_bytes.replace(free_bytes);
        if Arc::ptr_eq(&self.limited, limited) {
            return;
        }
        self.limited = limited.clone();
        let living: BTreeSet<AllocId> = limited.iter().map(|limited| limited.alloc).collect();
        self.known.retain(|alloc, _| living.contains(alloc));
        self.left.retain(|alloc, _| living.contains(alloc));
        self.activity.retain(|alloc, _| living.contains(alloc));
        let Some(before) = before else { return };
        // What has come since then began with nothing: all that it has written by now is what the file system has lost.
        for LimitedAlloc { alloc, limit_mb, .. } in limited.iter().filter(|limited| !limited.inherits) {
            let measured = Measurement { at: now, took: Duration::ZERO };
            let empty = MeasuredAlloc::new(Size::Bytes(0), *limit_mb, 0, before.max(free_bytes), measured);
            self.known.entry(*alloc).or_insert(empty);
        }
    }

    /// Those of which no task has run since they were measured can have taken nothing of what the file system has lost. Their
    /// counters are read when all are due, and as often as is worth it for those that may have passed their limits.
    fn spare_quiet(&mut self, limited: &[LimitedAlloc], free_bytes: u64, now: Instant) -> InactiveAllocs {
        let is_all = self.all_at <= now;
        let may_have_passed =
            |alloc: &AllocId| self.known.get(alloc).is_some_and(|known| known.may_have_passed(free_bytes));
        let candidates = limited.iter().filter(|limited| is_all || may_have_passed(&limited.alloc));
        let candidates: Vec<&LimitedAlloc> = candidates.filter(|limited| self.covers(limited)).collect();
        let due_at = |limited: &&LimitedAlloc| {
            self.known.get(&limited.alloc).map(|known| known.due_after(self.counters, free_bytes))
        };
        if !is_all && candidates.iter().filter_map(due_at).min().is_none_or(|due_at| due_at > now) {
            return InactiveAllocs { were_read: false, these: BTreeSet::new() };
        }
        let began = Instant::now();
        let mut these = BTreeSet::new();
        for LimitedAlloc { alloc, .. } in candidates {
            let is_quiet = self.activity.get(alloc).is_some_and(Activity::is_quiet);
            if let Some(known) = self.known.get_mut(alloc).filter(|known| is_quiet && known.failures == 0) {
                known.rebase(free_bytes);
                these.insert(*alloc);
            }
        }
        self.counters = Measurement { at: now, took: began.elapsed() };
        InactiveAllocs { were_read: true, these }
    }

    fn covers(&self, limited: &LimitedAlloc) -> bool {
        self.activity.get(&limited.alloc).is_some_and(|activity| activity.covers(limited))
    }

    fn is_due_with_all(&self, limited: &LimitedAlloc, quiet: &InactiveAllocs, now: Instant) -> bool {
        let Some(known) = self.known.get(&limited.alloc) else { return true };
        let is_spared = quiet.these.contains(&limited.alloc) && !self.begins_to_clean_up(limited);
        !is_spared || known.measured.at + QUIET_EVERY <= now
    }

    fn is_due(&self, limited: &LimitedAlloc, quiet: &InactiveAllocs, free_bytes: u64, now: Instant) -> bool {
        let Some(known) = self.known.get(&limited.alloc) else { return true };
        if self.begins_to_clean_up(limited) && known.failures == 0 {
            return true;
        }
        // Who has run is found out first, which costs much less.
        let waits = !quiet.were_read && known.failures == 0 && self.covers(limited);
        !waits && known.may_have_passed(free_bytes) && known.due_at(free_bytes) <= now
    }

    fn begins_to_clean_up(&self, limited: &LimitedAlloc) -> bool {
        limited.cleans_up && !self.left.contains_key(&limited.alloc)
    }

    /// What was due has been measured.
    pub(super) fn settle(&mut self) {
        let alarms = self.known.values().map(|known| known.alarm_at_free_bytes);
        // Those that could not be measured are due whatever the free space is.
        self.alarm_at_free_bytes = alarms.max().unwrap_or(0);
    }

    /// How long until the next check of free space.
    pub(super) fn check_after(&self, now: Instant) -> Duration {
        let Some(free_bytes) = self.free_bytes else { return CHECK_EVERY };
        let span = if free_bytes >= self.alarm_at_free_bytes {
            until_removed(free_bytes, self.alarm_at_free_bytes)
        } else {
            let each = self.known.values().map(|known| known.check_after(free_bytes, now));
            each.min().unwrap_or(CHECK_EVERY)
        };
        span.clamp(CHECK_EVERY_MIN, CHECK_EVERY)
    }
}

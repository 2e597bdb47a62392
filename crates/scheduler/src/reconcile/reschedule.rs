//! When a failed allocation is replaced: its policy, and the replacements so far. Attempts, delays and what is remembered
//! of them are as Nomad's, so that a job behaves alike.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_model::{
    Timestamp,
    alloc::{ClientStatus, DesiredStatus, Reschedule, Rescheduled},
    job::{DelayFunction, JobType, RESCHEDULE_ATTEMPTS_MAX, ReschedulePolicy, VersionChange},
    store::{AllocRow, AllocSlot, JobRow, Store},
};

use super::rollout::{CanaryState, canary_state};

/// What becomes of a failed allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RescheduleDecision {
    /// Replaced now; the replacements that count, this one included.
    Now(Vec<Reschedule>),
    /// Replaced at this time.
    Later(Timestamp),
    /// Not replaced.
    Never,
}

/// Replacements that are remembered where their number has no limit: a delay depends on the last two.
const REMEMBERED_MAX: usize = 5;

/// The version of entries in which a replacement is written with what it replaced.
const TRACKED_SINCE: u8 = 4;

/// Until when what failed is to be replaced at once, because somebody asked for that. Found out once a job, and only where a
/// policy says otherwise: it walks the job's evaluations.
pub(super) struct ForcedReschedule<'a> {
    store: &'a Store,
    job: &'a JobRow,
    until: OnceCell<Option<Timestamp>>,
}

impl<'a> ForcedReschedule<'a> {
    pub fn of(store: &'a Store, job: &'a JobRow) -> Self {
        Self { store, job, until: OnceCell::new() }
    }

    /// Whether this covers what failed then.
    fn covers(&self, failed_at: Timestamp) -> bool {
        let evals = || self.store.jobs().evals(self.job).filter_map(|slot| self.store.evals().row(slot));
        let last = || evals().filter(|eval| eval.force_reschedule).map(|eval| eval.created_at).max();
        self.until.get_or_init(last).is_some_and(|until| failed_at <= until)
    }
}

pub(super) fn verdict(
    store: &Store,
    (slot, row): (AllocSlot, &AllocRow),
    policy: &ReschedulePolicy,
    now: Timestamp,
    forced: &ForcedReschedule<'_>,
) -> RescheduleDecision {
    let past = store.allocs().extra(slot).map_or(&[][..], |extra| &extra.reschedules);
    let ended_at = store.allocs().detail(slot).map_or(now, |detail| detail.modified_at);
    let judged = match judge(policy, past, ended_at, now) {
        now @ PolicyDecision::Now { .. } => now,
        // What runs and is not healthy has not failed.
        _ if policy.is_enabled() && row.client == ClientStatus::Failed && forced.covers(ended_at) => {
            PolicyDecision::Now {
                remembered: remembered(policy, past, now),
                delay: delay(policy, past, ended_at),
            }
        }
        other => other,
    };
    match judged {
        PolicyDecision::Never => RescheduleDecision::Never,
        PolicyDecision::Later(at) => RescheduleDecision::Later(at),
        PolicyDecision::Now { remembered, delay } => {
            // Servers of before version 4 read times alone.
            let is_known = store.version() >= TRACKED_SINCE;
            let node = store.nodes().row(row.node).map(|node| node.id).filter(|_| is_known);
            let of = node.map(|node| Rescheduled { alloc: row.id, node, delay });
            RescheduleDecision::Now(remembered.into_iter().chain([Reschedule { at: now, of }]).collect())
        }
    }
}

/// The allocations of a service that have failed, are as the newest version of their job has them, and will have no other in their
/// place: their policy allows none, or older ones have the place. Their group lacks them until these are replaced.
pub fn failed_for_good(store: &Store, job: &JobRow, now: Timestamp) -> Vec<AllocSlot> {
    if job.job().job_type != JobType::Service {
        return Vec::new();
    }
    let allocs = || store.jobs().allocs(job).filter_map(|slot| Some((slot, store.allocs().row(slot)?)));
    let is_replaced = |slot| store.allocs().extra(slot).is_some_and(|extra| extra.next.is_some());
    let is_current = |row: &AllocRow| job.change_of(row.job_version, row.group) != VersionChange::Replacement;
    let has_failed = |slot, row: &AllocRow| {
        row.client == ClientStatus::Failed
            && row.desired == DesiredStatus::Run
            && !is_replaced(slot)
            && is_current(row)
    };
    let mut failed: Vec<_> = allocs().filter(|(slot, row)| has_failed(*slot, row)).collect();
    if failed.is_empty() {
        return Vec::new();
    }
    let group = |row: &AllocRow| {
        let of = job.version(row.job_version)?.job.groups.get(usize::from(row.group))?;
        Some(job.job().group(&of.name)?.1)
    };
    let mut live: BTreeMap<&str, LiveAllocs> = BTreeMap::new();
    for (_, row) in allocs().filter(|(_, row)| row.is_desired()) {
        let Some(group) = group(row) else { continue };
        let live = live.entry(&group.name).or_default();
        live.all += 1;
        if is_current(row) {
            live.current.insert(row.name_index);
        }
    }
    let forced = ForcedReschedule::of(store, job);
    failed.retain(|&(slot, row)| {
        let Some(group) = group(row) else { return false };
        let is_final =
            || verdict(store, (slot, row), &group.reschedule, now, &forced) == RescheduleDecision::Never;
        // Canaries stand beside the count.
        match canary_state(store, job, (row, store.allocs().extra(slot)), &group.name) {
            CanaryState::Open => return is_final(),
            CanaryState::Discarded => return false,
            CanaryState::No => {}
        }
        let LiveAllocs { all, current } = live.entry(&group.name).or_default();
        let is_full = || *all >= group.count;
        current.len() < group.count as usize
            && !current.contains(&row.name_index)
            && (is_full() || is_final())
    });
    failed.into_iter().map(|(slot, _)| slot).collect()
}

/// What runs of a group.
#[derive(Default)]
struct LiveAllocs {
    all: u32,
    /// The names of those that are as the newest version has them.
    current: BTreeSet<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PolicyDecision {
    Now { remembered: Vec<Reschedule>, delay: Duration },
    Later(Timestamp),
    Never,
}

fn judge(
    policy: &ReschedulePolicy,
    past: &[Reschedule],
    ended_at: Timestamp,
    now: Timestamp,
) -> PolicyDecision {
    let delay = delay(policy, past, ended_at);
    let ReschedulePolicy { unlimited, attempts, interval, .. } = *policy;
    if !unlimited {
        let counting = past.iter().filter(|event| ended_at.since(event.at) < interval).count();
        // A delay that is longer than the interval would make every attempt the first.
        let never_again = !past.is_empty() && delay >= interval;
        if counting >= attempts.min(RESCHEDULE_ATTEMPTS_MAX) as usize || never_again {
            return PolicyDecision::Never;
        }
    }
    let due = ended_at.after(delay);
    if due > now {
        return PolicyDecision::Later(due);
    }
    PolicyDecision::Now { remembered: remembered(policy, past, now), delay }
}

/// Earlier replacements that still count.
fn remembered(policy: &ReschedulePolicy, past: &[Reschedule], now: Timestamp) -> Vec<Reschedule> {
    match policy.unlimited {
        true => past[past.len().saturating_sub(REMEMBERED_MAX)..].to_vec(),
        false => past.iter().copied().filter(|event| now.since(event.at) <= policy.interval).collect(),
    }
}

/// The delay before the replacement after `past` earlier ones. Once it has reached its maximum, an allocation that has run
/// for longer than that begins again.
fn delay(policy: &ReschedulePolicy, past: &[Reschedule], ended_at: Timestamp) -> Duration {
    // Of events that an older version wrote only the times are known.
    let waited = |event: &Reschedule| event.of.map_or(policy.delay, |of| of.delay);
    let (max, ceiling) = (policy.max_delay, !policy.max_delay.is_zero());
    let next = match (policy.backoff, past) {
        (DelayFunction::Constant, _) | (_, []) | (DelayFunction::Fibonacci, [_]) => return policy.delay,
        (DelayFunction::Exponential, [.., last]) => waited(last).saturating_mul(2),
        (DelayFunction::Fibonacci, [.., before, last]) => {
            let began_anew = ceiling && waited(before) == max && waited(last) == policy.delay;
            if began_anew { policy.delay } else { waited(before).saturating_add(waited(last)) }
        }
    };
    let ran_for = past.last().map_or(Duration::ZERO, |last| ended_at.since(last.at));
    match ceiling && next > max {
        true if ran_for > max => policy.delay,
        true => max,
        false => next,
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{AllocId, NodeId, job::JobType};

    use super::*;

    const MINUTE: u64 = 60;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000_000_000)
    }

    fn event(at_s: u64, delay_s: u64) -> Reschedule {
        let of = Rescheduled { alloc: AllocId(1), node: NodeId(1), delay: Duration::from_secs(delay_s) };
        Reschedule { at: at(at_s), of: Some(of) }
    }

    fn policy(backoff: DelayFunction, delay_s: u64, max_s: u64) -> ReschedulePolicy {
        ReschedulePolicy {
            backoff,
            delay: Duration::from_secs(delay_s),
            max_delay: Duration::from_secs(max_s),
            ..ReschedulePolicy::default_for(JobType::Service)
        }
    }

    /// The delays of one that fails as soon as it runs, in seconds.
    fn delays(policy: &ReschedulePolicy, count: usize) -> Vec<u64> {
        let (mut past, mut now) = (Vec::new(), 1_000);
        let mut next = || {
            let delay = delay(policy, &past, at(now)).as_secs();
            now += delay;
            past.push(event(now, delay));
            delay
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn delays_grow_as_their_function_says_up_to_their_maximum() {
        assert_eq!(delays(&policy(DelayFunction::Constant, 5, 0), 4), [5, 5, 5, 5]);
        assert_eq!(delays(&policy(DelayFunction::Exponential, 30, 200), 6), [30, 60, 120, 200, 200, 200]);
        assert_eq!(delays(&policy(DelayFunction::Fibonacci, 5, 30), 8), [5, 5, 10, 15, 25, 30, 30, 30]);
    }

    #[test]
    fn what_ran_for_longer_than_the_longest_delay_begins_anew() {
        let exponential = policy(DelayFunction::Exponential, 30, 100);
        let past = [event(100, 60), event(200, 100)];
        assert_eq!(delay(&exponential, &past, at(300)).as_secs(), 100);
        assert_eq!(delay(&exponential, &past, at(301)).as_secs(), 30);
        assert_eq!(
            delay(&exponential, &[event(100, 40)], at(9_000)).as_secs(),
            80,
            "it is not at its maximum"
        );
        let fibonacci = policy(DelayFunction::Fibonacci, 30, 100);
        assert_eq!(delay(&fibonacci, &[event(100, 100), event(300, 30)], at(310)).as_secs(), 30);
    }

    #[test]
    fn a_service_is_tried_for_ever_and_remembers_the_last_few() {
        let policy = ReschedulePolicy::default_for(JobType::Service);
        assert_eq!(judge(&policy, &[], at(100), at(110)), PolicyDecision::Later(at(130)));
        let now = |remembered: &[Reschedule], delay_s| PolicyDecision::Now {
            remembered: remembered.to_vec(),
            delay: Duration::from_secs(delay_s),
        };
        assert_eq!(judge(&policy, &[], at(100), at(130)), now(&[], 30));
        let past: Vec<_> = (0..8).map(|n| event(n, 3600)).collect();
        assert_eq!(judge(&policy, &past, at(100), at(110)), PolicyDecision::Later(at(3700)));
        assert_eq!(judge(&policy, &past, at(100), at(3700)), now(&past[3..], 3600));
    }

    #[test]
    fn attempts_count_within_the_interval_before_the_failure() {
        let batch = ReschedulePolicy::default_for(JobType::Batch);
        let day = 24 * 60 * MINUTE;
        assert_eq!(
            judge(&batch, &[], at(100), at(105)),
            PolicyDecision::Now { remembered: vec![], delay: Duration::from_secs(5) }
        );
        let past = [event(105, 5)];
        assert_eq!(judge(&batch, &past, at(200), at(300)), PolicyDecision::Never);
        assert_eq!(
            judge(&batch, &past, at(104 + day), at(110 + day)),
            PolicyDecision::Never,
            "it failed just within"
        );
        let later = judge(&batch, &past, at(105 + day), at(110 + day));
        assert_eq!(later, PolicyDecision::Now { remembered: vec![], delay: Duration::from_secs(5) });
        let none = ReschedulePolicy { attempts: 0, ..batch };
        assert_eq!(judge(&none, &[], at(100), at(200)), PolicyDecision::Never);
    }

    #[test]
    fn a_delay_beyond_the_interval_is_the_end_of_it() {
        let limited = ReschedulePolicy {
            unlimited: false,
            attempts: 10,
            interval: Duration::from_secs(100),
            ..policy(DelayFunction::Exponential, 60, 3600)
        };
        assert_eq!(judge(&limited, &[], at(100), at(100)), PolicyDecision::Later(at(160)));
        assert_eq!(judge(&limited, &[event(160, 60)], at(170), at(400)), PolicyDecision::Never);
    }

    #[test]
    fn times_that_an_older_version_wrote_count() {
        let policy = policy(DelayFunction::Exponential, 30, 3600);
        let old = Reschedule { at: at(50), of: None };
        assert_eq!(delay(&policy, &[old], at(100)).as_secs(), 60);
    }
}

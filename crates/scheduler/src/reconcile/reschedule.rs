//! When a failed allocation is replaced: its policy, and the replacements so far.

use std::time::Duration;

use berth_model::{
    Timestamp,
    job::{Backoff, ReschedulePolicy},
    store::{AllocSlot, Store},
};

/// What becomes of a failed allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Replaced now; the times of the replacements that count, this one included.
    Now(Vec<Timestamp>),
    /// Replaced at this time.
    Later(Timestamp),
    /// Not replaced.
    Never,
}

/// Replacements whose times are remembered; more cannot change a delay that has long reached its maximum.
const REMEMBERED_MAX: usize = 24;

pub(super) fn verdict(store: &Store, slot: AllocSlot, policy: &ReschedulePolicy, now: Timestamp) -> Verdict {
    let past = store.allocs().extra(slot).map_or(&[][..], |extra| &extra.reschedules);
    let ended_at = store.allocs().detail(slot).map_or(now, |detail| detail.modified_at);
    judge(policy, past, ended_at, now)
}

fn judge(policy: &ReschedulePolicy, past: &[Timestamp], ended_at: Timestamp, now: Timestamp) -> Verdict {
    let counting: Vec<Timestamp> = match policy.unlimited {
        true => past.to_vec(),
        false => past.iter().copied().filter(|at| now.since(*at) < policy.interval).collect(),
    };
    if !policy.unlimited && counting.len() >= policy.attempts as usize {
        return Verdict::Never;
    }
    let due = ended_at.after(delay(policy, counting.len()));
    if due > now {
        return Verdict::Later(due);
    }
    let skip = (counting.len() + 1).saturating_sub(REMEMBERED_MAX);
    Verdict::Now(counting.into_iter().chain([now]).skip(skip).collect())
}

/// The delay before the replacement after `past` earlier ones.
fn delay(policy: &ReschedulePolicy, past: usize) -> Duration {
    let (mut before, mut this) = (Duration::ZERO, policy.delay);
    for _ in 0..past.min(REMEMBERED_MAX) {
        (before, this) = match policy.backoff {
            Backoff::Constant => (this, this),
            Backoff::Exponential => (this, this.saturating_mul(2)),
            Backoff::Fibonacci => (this, this.saturating_add(before.max(policy.delay))),
        };
    }
    if policy.max_delay.is_zero() { this } else { this.min(policy.max_delay) }
}

#[cfg(test)]
mod tests {
    use berth_model::job::JobType;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000_000_000)
    }

    #[test]
    fn a_service_waits_longer_each_time() {
        let policy = ReschedulePolicy::default_for(JobType::Service);
        assert_eq!(judge(&policy, &[], at(100), at(110)), Verdict::Later(at(130)));
        assert_eq!(judge(&policy, &[], at(100), at(130)), Verdict::Now(vec![at(130)]));
        assert_eq!(judge(&policy, &[at(1), at(2)], at(100), at(110)), Verdict::Later(at(220)));
        let many: Vec<_> = (0..20).map(at).collect();
        assert_eq!(judge(&policy, &many, at(100), at(110)), Verdict::Later(at(3700)));
    }

    #[test]
    fn a_batch_job_is_tried_once_more_a_day() {
        let policy = ReschedulePolicy::default_for(JobType::Batch);
        assert_eq!(judge(&policy, &[], at(100), at(105)), Verdict::Now(vec![at(105)]));
        assert_eq!(judge(&policy, &[at(105)], at(200), at(300)), Verdict::Never);
        assert_eq!(judge(&policy, &[at(105)], at(90_000), at(90_005)), Verdict::Now(vec![at(90_005)]));
    }

    #[test]
    fn a_fibonacci_delay_is_the_sum_of_the_two_before() {
        let policy = ReschedulePolicy {
            backoff: Backoff::Fibonacci,
            ..ReschedulePolicy::default_for(JobType::Service)
        };
        let seconds: Vec<u64> = (0..5).map(|past| delay(&policy, past).as_secs()).collect();
        assert_eq!(seconds, [30, 60, 90, 150, 240]);
    }
}

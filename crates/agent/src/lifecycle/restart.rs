//! Whether a task that ended starts again, and when; the rules are Nomad's.

use berth_api::agent::{RestartModeSpec, RestartSpec};

use super::history::go_duration;

/// The restarts counted against a policy's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Window {
    pub(super) start_ns: u64,
    pub(super) count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RestartVerdict {
    Restart { delay_ns: u64, reason: &'static str },
    Fail { reason: String },
}

/// Counts one more end of a task and says what follows from it. `random` makes up to a quarter of extra delay.
pub(super) fn decide(policy: &RestartSpec, window: &mut Window, now_ns: u64, random: u64) -> RestartVerdict {
    let delays = policy.mode() == RestartModeSpec::Delay;
    if policy.attempts == 0 && !delays {
        return RestartVerdict::Fail { reason: "Policy allows no restarts".into() };
    }
    let interval_ns = policy.interval_ms.saturating_mul(1_000_000);
    if window.count == 0 || now_ns > window.start_ns.saturating_add(interval_ns) {
        *window = Window { start_ns: now_ns, count: 0 };
    }
    window.count += 1;
    let delay_ns = with_jitter(policy.delay_ms.saturating_mul(1_000_000), random);
    if window.count <= policy.attempts {
        return RestartVerdict::Restart { delay_ns, reason: "Restart within policy" };
    }
    if !delays {
        let (attempts, interval) = (policy.attempts, go_duration(policy.interval_ms));
        let reason =
            format!("Exceeded allowed attempts {attempts} in interval {interval} and mode is \"fail\"");
        return RestartVerdict::Fail { reason };
    }
    let left_ns = window.start_ns.saturating_add(interval_ns).saturating_sub(now_ns);
    RestartVerdict::Restart {
        delay_ns: left_ns.max(delay_ns),
        reason: "Exceeded allowed attempts, applying a delay",
    }
}

fn with_jitter(delay_ns: u64, random: u64) -> u64 {
    let extra = (u128::from(delay_ns / 4) * u128::from(random)) >> 64;
    delay_ns.saturating_add(extra as u64)
}

/// A well-mixed number from a seed and what it is for (splitmix64, Steele et al. 2014).
pub(super) fn mix(seed: u64, salt: u64) -> u64 {
    let mut z = (seed ^ salt.wrapping_mul(0xff51_afd7_ed55_8ccd)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn policy(attempts: u32, mode: RestartModeSpec) -> RestartSpec {
        RestartSpec { attempts, interval_ms: 60_000, delay_ms: 8_000, mode: mode as i32 }
    }

    fn delays(policy: &RestartSpec, ends: &[u64]) -> Vec<Option<u64>> {
        let mut window = Window::default();
        let verdicts = ends.iter().map(|second| decide(policy, &mut window, second * SECOND, 0));
        let delay = |verdict| match verdict {
            RestartVerdict::Restart { delay_ns, .. } => Some(delay_ns / SECOND),
            RestartVerdict::Fail { .. } => None,
        };
        verdicts.map(delay).collect()
    }

    #[test]
    fn attempts_are_counted_within_an_interval() {
        let fail = policy(2, RestartModeSpec::Fail);
        assert_eq!(delays(&fail, &[0, 10, 20]), [Some(8), Some(8), None]);
        assert_eq!(delays(&fail, &[0, 10, 61, 70, 80]), [Some(8), Some(8), Some(8), Some(8), None]);
    }

    #[test]
    fn the_delay_mode_waits_for_the_interval_to_end() {
        assert_eq!(delays(&policy(1, RestartModeSpec::Delay), &[0, 10, 61]), [Some(8), Some(50), Some(8)]);
        assert_eq!(delays(&policy(0, RestartModeSpec::Delay), &[0]), [Some(60)]);
        assert_eq!(delays(&policy(0, RestartModeSpec::Fail), &[0]), [None]);
    }

    #[test]
    fn the_jitter_is_at_most_a_quarter() {
        assert_eq!(with_jitter(8 * SECOND, 0), 8 * SECOND);
        let most = with_jitter(8 * SECOND, u64::MAX);
        assert!(most < 10 * SECOND && most > 9 * SECOND);
        assert_ne!(mix(1, 2), mix(2, 1));
    }
}

//! Pauses between attempts to reach a server.

use std::time::Duration;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Half of the time that a leader gives agents to come back (`GRACE_MIN` of `berth-controller`): one try may fail, and the
/// next one is still in time.
const RETRY_MAX: Duration = Duration::from_secs(13);

/// Where a server answers, and does not lead: one of the others does, or will soon.
const ANSWERED_MAX: Duration = Duration::from_secs(3);

/// The first pause is at most so many times shorter than the time between heartbeats.
const HEARTBEATS_SPREAD: u32 = 10;

/// Far apart: thousands of agents may be refused at once, and each try is an error that somebody reads.
const REFUSED_MIN: Duration = Duration::from_secs(60);
const REFUSED_MAX: Duration = Duration::from_secs(120);

/// Random pauses that grow, so that a dead server's agents do not come back all at once.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    tries: u8,
    /// The longest of the first pauses.
    first: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { tries: 0, first: RETRY_MIN }
    }
}

impl Backoff {
    /// The next pause; `random` is any well-mixed number.
    pub fn next(&mut self, random: u64) -> Duration {
        self.next_of(1, random)
    }

    /// The next pause where so many servers are tried one after the other: however many of them are dead, one that lives is
    /// tried within the longest pause between two attempts at a single one. `random` is any well-mixed number.
    pub fn next_of(&mut self, servers: usize, random: u64) -> Duration {
        let servers = u32::try_from(servers).unwrap_or(u32::MAX).max(1);
        self.pause(RETRY_MAX / servers, random)
    }

    /// The next pause where a server answered, and did not let the agent in; `random` is any well-mixed number.
    pub fn after_answer(&mut self, random: u64) -> Duration {
        self.pause(ANSWERED_MAX, random)
    }

    fn pause(&mut self, max: Duration, random: u64) -> Duration {
        let most = self.first.saturating_mul(1 << self.tries.min(16)).min(max);
        self.tries = self.tries.saturating_add(1);
        let part = random as f64 / u64::MAX as f64;
        PAUSE_MIN + most.mul_f64(part)
    }

    /// Pauses grow with the cluster, whose agents a dead server sends to the others all at once: a server asks for heartbeats
    /// the more seldom the more nodes there are.
    pub fn spread(&mut self, heartbeat: Option<Duration>) {
        if let Some(heartbeat) = heartbeat {
            self.first = (heartbeat / HEARTBEATS_SPREAD).clamp(RETRY_MIN, RETRY_MAX);
        }
    }

    /// The pause after an attempt that will not succeed unless somebody changes something; `random` is any well-mixed
    /// number.
    pub fn after_refusal(&mut self, random: u64) -> Duration {
        self.reset();
        REFUSED_MIN + (REFUSED_MAX - REFUSED_MIN).mul_f64(random as f64 / u64::MAX as f64)
    }

    /// An attempt has succeeded: the next pause is a short one again.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_leaves_a_server_time_to_hear_of_the_node() {
        let mut backoff = Backoff { tries: u8::MAX, ..Backoff::default() };
        assert!(backoff.next(u64::MAX) <= Duration::from_secs(15));
        let round: Duration = (0..5).map(|_| backoff.next_of(5, u64::MAX)).sum();
        assert!(round <= Duration::from_secs(15), "four of five servers are dead: {round:?}");
        assert!(backoff.after_answer(u64::MAX) <= Duration::from_secs(4), "servers are there: one will lead");
    }

    #[test]
    fn pauses_grow_and_stay_bounded() {
        let mut backoff = Backoff::default();
        let longest: Vec<_> = (0..300).map(|_| backoff.next(u64::MAX)).collect();
        assert_eq!(longest[..3], [250, 450, 850].map(Duration::from_millis));
        assert_eq!(longest[299], PAUSE_MIN + RETRY_MAX);
        assert_eq!(backoff.next(0), PAUSE_MIN);
        backoff.reset();
        assert_eq!(backoff.next(u64::MAX), longest[0]);
        let refused = [0, u64::MAX].map(|random| backoff.after_refusal(random).as_secs());
        assert_eq!((refused, backoff.next(u64::MAX)), ([60, 120], longest[0]));
    }
}

//! Pauses between attempts to reach a server.

use std::time::Duration;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Well below the time that a new leader gives agents to come back, 30 s, before it declares their nodes lost.
const RETRY_MAX: Duration = Duration::from_secs(14);

/// Random pauses that grow, so that a dead server's agents do not come back all at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff {
    tries: u8,
}

impl Backoff {
    /// The next pause; `random` is any well-mixed number.
    pub fn next(&mut self, random: u64) -> Duration {
        let most = RETRY_MIN.saturating_mul(1 << self.tries.min(16)).min(RETRY_MAX);
        self.tries = self.tries.saturating_add(1);
        let part = random as f64 / u64::MAX as f64;
        PAUSE_MIN + most.mul_f64(part)
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
        let mut backoff = Backoff { tries: u8::MAX };
        assert!(backoff.next(u64::MAX) <= Duration::from_secs(15));
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
    }
}

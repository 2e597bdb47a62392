//! The timeout of a dialed server: when the agent gives it up and dials another one.

use std::time::Duration;

use super::link::HEARTBEAT_MS_DEFAULT;

/// The longest, in nanoseconds: a cluster whose agents all come back at once is busy, and is no sooner done if they hang up.
const WELCOME_MAX_NS: u64 = 30_000_000_000;

/// Times are in nanoseconds of any clock that only goes on.
///
/// As long as there is between two heartbeats at first: a node is declared lost after three of them, so that there is time to
/// dial another server where the first one hangs. Twice as long after each silence.
#[derive(Debug, Clone, Copy)]
pub struct DialPatience {
    heartbeat_ns: u64,
    silences: u32,
    dialed_ns: Option<u64>,
}

impl Default for DialPatience {
    fn default() -> Self {
        Self { heartbeat_ns: HEARTBEAT_MS_DEFAULT * 1_000_000, silences: 0, dialed_ns: None }
    }
}

impl DialPatience {
    /// A server is dialed now.
    pub fn begin(&mut self, now_ns: u64) {
        if self.until_ns().is_some_and(|until_ns| until_ns <= now_ns) {
            self.silences = self.silences.saturating_add(1);
        }
        self.dialed_ns = Some(now_ns);
    }

    /// It has responded, if only with a refusal: whatever the pause until the next one is dialed, it was not silent.
    pub fn answered(&mut self) {
        self.dialed_ns = None;
    }

    /// It has accepted the agent, and expects heartbeats this often; 0 stands for the longest.
    pub fn welcomed(&mut self, heartbeat_ns: u64) {
        let heartbeat_ns = if heartbeat_ns == 0 { Self::default().heartbeat_ns } else { heartbeat_ns };
        *self = Self { heartbeat_ns, silences: 0, dialed_ns: None };
    }

    /// When the server that is being dialed has been silent for too long.
    pub fn until_ns(&self) -> Option<u64> {
        self.dialed_ns.map(|dialed_ns| dialed_ns.saturating_add(self.ns()))
    }

    /// How long that is.
    pub fn span(&self) -> Duration {
        Duration::from_nanos(self.ns())
    }

    fn ns(&self) -> u64 {
        self.heartbeat_ns.saturating_mul(1 << self.silences.min(16)).min(WELCOME_MAX_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_silent_server_is_left_in_time_for_another_one() {
        let mut patience = DialPatience::default();
        patience.welcomed(5 * S);
        assert_eq!(patience.until_ns(), None);
        patience.begin(100 * S);
        // The last heartbeat is up to 5 s ago, and the node is lost 15 s after it.
        assert_eq!(patience.until_ns(), Some(105 * S));
    }

    #[test]
    fn each_silence_is_borne_twice_as_long() {
        let mut patience = DialPatience::default();
        patience.welcomed(5 * S);
        let mut now_ns = 0;
        let mut spans = Vec::new();
        for _ in 0..5 {
            patience.begin(now_ns);
            spans.push(patience.span().as_secs());
            now_ns = patience.until_ns().unwrap();
        }
        assert_eq!(spans, [5, 10, 20, 30, 30]);
        patience.welcomed(9 * S);
        patience.begin(now_ns);
        assert_eq!(patience.span().as_secs(), 9);
    }

    #[test]
    fn a_server_that_answers_at_once_that_it_does_not_want_us_is_not_silent() {
        let mut patience = DialPatience::default();
        patience.welcomed(5 * S);
        for minute in 0..9 {
            patience.begin(minute * 60 * S);
            patience.answered();
        }
        assert_eq!(patience.span().as_secs(), 5);
        patience.welcomed(0);
        assert_eq!(patience.span().as_secs(), 10);
    }
}

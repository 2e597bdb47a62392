//! Limits how fast a task's output is taken. A task that prints faster is blocked by its full pipe: no output is lost, and the task
//! cannot use a core or the disk beyond its limits through its keeper, whose work is not accounted to it.

use std::time::{Duration, Instant};

/// Bytes of a stream a second, and at once after a silence.
const BYTES_PER_SECOND: u64 = 32 << 20;
const BURST_BYTES: u64 = 64 << 20;
/// What is worth waking up for.
const LEAST_BYTES: u64 = 1 << 20;

/// What may be taken of one stream now.
#[derive(Debug)]
pub(super) struct Allowance {
    bytes: u64,
    /// When that was reckoned.
    at: Instant,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Self {
        Self { bytes: BURST_BYTES, at: now }
    }

    /// How many bytes may be taken now; 0 for none until it is worth it.
    pub(super) fn at(&mut self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.at);
        let more = passed.as_micros() * u128::from(BYTES_PER_SECOND) / 1_000_000;
        // The rest of a byte is not forgotten, however often this is asked.
        if more > 0 {
            self.bytes = u64::try_from(more).unwrap_or(u64::MAX).saturating_add(self.bytes).min(BURST_BYTES);
            self.at = now;
        }
        if self.is_spent() { 0 } else { usize::try_from(self.bytes).unwrap_or(usize::MAX) }
    }

    pub(super) fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }

    /// Whether there is nothing to be taken before [`Self::PAUSE`] has passed.
    pub(super) fn is_spent(&self) -> bool {
        self.bytes < LEAST_BYTES
    }

    /// After so long there is something to be taken again.
    pub(super) const PAUSE: Duration = Duration::from_millis(LEAST_BYTES * 1_000 / BYTES_PER_SECOND + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_a_burst_and_the_rate() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let mut taken = 0_u64;
        // Asked at odd moments, which are no multiple of anything.
        for step in 0..10_000_u64 {
            let now = start + Duration::from_micros(step * 1_003);
            let piece = allowance.at(now).min(256 << 10);
            allowance.spend(piece);
            taken += piece as u64;
        }
        let expected = BURST_BYTES + BYTES_PER_SECOND * 10_029 / 1_000;
        assert!(taken <= expected && taken > expected - 2 * LEAST_BYTES, "{taken} of {expected}");
    }

    #[test]
    fn after_a_pause_there_is_something_again_and_a_silence_saves_no_more_than_a_burst() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        allowance.spend(usize::try_from(BURST_BYTES).expect("fits"));
        assert!(allowance.is_spent() && allowance.at(start) == 0);
        assert!(allowance.at(start + Allowance::PAUSE) >= 1 << 20);
        assert_eq!(allowance.at(start + Duration::from_secs(3_600)) as u64, BURST_BYTES);
    }
}

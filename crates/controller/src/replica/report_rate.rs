//! How much agents report to this server, and how long what is not urgent should therefore wait on its node. The wait follows what
//! came within a second and not the size of one batch: batches are as short as a step of the controller takes, so that a busy
//! server has many rather than large ones.

use std::time::Duration;

/// How long changes wait for company where little is reported, and where as much is as a server takes in beside its other work:
/// milliseconds.
const DELAY_MS: [u64; 2] = [1_000, 3_000];
/// Allocations that are reported within a second from which on the wait is the longest: by `lab run updates` these take a tenth to a
/// third of a processor.
const REPORTED_FULL: u64 = 10_000;

/// Allocations that agents have reported, second by second.
#[derive(Debug, Default)]
pub(super) struct ReportRate {
    /// When the present second began, by the time of listening.
    since: Duration,
    allocs: u64,
    /// In the second before.
    before: u64,
}

impl ReportRate {
    /// Counts those of an update; answers how long the next ones should wait.
    pub fn take_in(&mut self, allocs: usize, listening: Duration) -> u64 {
        self.turn(listening);
        self.allocs += allocs as u64;
        self.per_second_max()
    }

    /// How long changes that are not urgent should wait: milliseconds.
    pub fn delay_ms(&mut self, listening: Duration) -> u64 {
        self.turn(listening);
        self.per_second_max()
    }

    fn turn(&mut self, listening: Duration) {
        let seconds = listening.saturating_sub(self.since).as_secs();
        if seconds > 0 {
            self.before = if seconds == 1 { self.allocs } else { 0 };
            (self.since, self.allocs) = (listening, 0);
        }
    }

    /// By the fuller of the two seconds, so that neither a flood that begins nor the begin of a second is missed.
    fn per_second_max(&self) -> u64 {
        let [least, most] = DELAY_MS;
        least + (most - least) * self.before.max(self.allocs).min(REPORTED_FULL) / REPORTED_FULL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_with_what_is_reported_and_goes_back() {
        let at = |ms| Duration::from_millis(ms);
        let mut reported = ReportRate::default();
        assert_eq!(reported.delay_ms(at(5_000)), 1_000);
        assert_eq!(reported.take_in(2_500, at(5_100)), 1_500);
        assert_eq!(reported.take_in(2_500, at(5_900)), 2_000);
        assert_eq!(reported.take_in(1, at(6_100)), 2_000, "as much as in the second before");
        assert_eq!(reported.take_in(1_000_000, at(6_200)), 3_000);
        assert_eq!(reported.delay_ms(at(7_100)), 3_000);
        assert_eq!(reported.delay_ms(at(8_100)), 1_000);
    }

    #[test]
    fn a_second_that_was_long_ago_counts_no_more() {
        let mut reported = ReportRate::default();
        assert_eq!(reported.take_in(20_000, Duration::ZERO), 3_000);
        assert_eq!(reported.delay_ms(Duration::from_secs(9)), 1_000);
    }
}

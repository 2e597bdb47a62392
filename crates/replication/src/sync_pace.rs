//! Whether the log's disk keeps up. A single slow sync is a hiccup that every disk has; several in a row, or one that does
//! not end, mean that whoever leads on this disk should not.

use std::time::Duration;

/// A sync that takes this long is slow.
const SLOW_MIN: Duration = Duration::from_millis(250);
/// Slow syncs in a row after which the disk is.
const SLOW_SYNCS: u32 = 3;
/// A sync that takes this long says so alone, and already while it goes on.
const STUCK_MIN: Duration = Duration::from_secs(2);
/// The disk is slow for at least so long after its last slow sync: a server that leads no more writes less, and would
/// otherwise seem well at once.
const SLOW_FOR: Duration = Duration::from_secs(15);
/// A sync moves the mean of the last ones by this part of the difference.
const MEAN_OVER: u32 = 8;

/// What is known of the syncs of a disk. Times are those of a clock that never goes back.
#[derive(Debug, Default)]
pub(crate) struct SyncPace {
    /// When the sync began that goes on.
    began: Option<Duration>,
    /// Slow syncs since the last that was not.
    slow_in_a_row: u32,
    /// The disk was slow then, and how long the sync took that showed it.
    slow: Option<(Duration, Duration)>,
    /// How long the last syncs took.
    mean: Option<Duration>,
}

impl SyncPace {
    pub fn on_begun(&mut self, now: Duration) {
        self.began = Some(now);
    }

    pub fn on_done(&mut self, now: Duration, took: Duration) {
        self.began = None;
        self.mean = Some(self.mean.map_or(took, |mean| mean - mean / MEAN_OVER + took / MEAN_OVER));
        self.slow_in_a_row = if took < SLOW_MIN { 0 } else { self.slow_in_a_row + 1 };
        let was_slow = self.slow_at(now).is_some();
        if self.slow_in_a_row >= SLOW_SYNCS || took >= STUCK_MIN || (was_slow && took >= SLOW_MIN) {
            self.slow = Some((now, took));
        }
    }

    /// How long the last syncs took in the mean, each counting for less than the one after it; none before the first.
    pub fn mean(&self) -> Option<Duration> {
        self.mean
    }

    /// How long a sync takes, if the disk is slow.
    pub fn slow(&self, now: Duration) -> Option<Duration> {
        let going_on = self.began.map(|began| now.saturating_sub(began)).filter(|took| *took >= STUCK_MIN);
        going_on.or_else(|| self.slow_at(now))
    }

    fn slow_at(&self, now: Duration) -> Option<Duration> {
        self.slow.filter(|(at, _)| now.saturating_sub(*at) < SLOW_FOR).map(|(_, took)| took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Syncs one after the other, from `now` on; when the last is done.
    fn syncs(pace: &mut SyncPace, mut now: Duration, took: &[Duration]) -> Duration {
        for took in took {
            pace.on_begun(now);
            now += *took;
            pace.on_done(now, *took);
        }
        now
    }

    #[test]
    fn a_hiccup_is_not_slow_and_several_in_a_row_are() {
        let mut pace = SyncPace::default();
        let now = syncs(&mut pace, ms(0), &[ms(1), ms(900), ms(900), ms(1), ms(900), ms(900)]);
        assert_eq!(pace.slow(now), None);
        let now = syncs(&mut pace, now, &[ms(800)]);
        assert_eq!(pace.slow(now), Some(ms(800)));
    }

    #[test]
    fn the_mean_follows_the_last_syncs() {
        let mut pace = SyncPace::default();
        assert_eq!(pace.mean(), None);
        let now = syncs(&mut pace, ms(0), &[ms(8)]);
        assert_eq!(pace.mean(), Some(ms(8)));
        let now = syncs(&mut pace, now, &[ms(16)]);
        assert_eq!(pace.mean(), Some(ms(9)));
        syncs(&mut pace, now, &[ms(1); 100]);
        assert!(pace.mean() < Some(ms(2)), "{:?}", pace.mean());
    }

    #[test]
    fn a_sync_that_does_not_end_is_slow_before_it_ends() {
        let mut pace = SyncPace::default();
        pace.on_begun(ms(10));
        assert_eq!(pace.slow(ms(2009)), None);
        assert_eq!(pace.slow(ms(2010)), Some(ms(2000)));
        pace.on_done(ms(3010), ms(3000));
        assert_eq!(pace.slow(ms(3011)), Some(ms(3000)));
    }

    #[test]
    fn a_disk_stays_slow_for_a_while_and_as_long_as_any_sync_is() {
        let mut pace = SyncPace::default();
        let slow = syncs(&mut pace, ms(0), &[ms(500); 3]);
        let now = syncs(&mut pace, slow, &[ms(1); 20]);
        assert_eq!(pace.slow(now), Some(ms(500)));
        let again = syncs(&mut pace, now + ms(10_000), &[ms(300)]);
        assert_eq!(pace.slow(again + SLOW_FOR - ms(1)), Some(ms(300)));
        assert_eq!(pace.slow(again + SLOW_FOR), None);
    }
}

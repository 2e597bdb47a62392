//! Whether what runs keeps running: a task that exits at once was running for a moment, too.

use std::time::Duration;

use tokio::time::Instant;

use super::Progress;

/// How long what no deployment watches must run without a restart.
const STEADY_FOR: Duration = Duration::from_secs(1);

/// Since when nothing has changed.
#[derive(Debug, Default)]
pub(super) struct Steady(Option<(u64, Instant)>);

impl Steady {
    /// Whether nothing more is to be waited for, as things are now.
    pub fn is_over(&mut self, progress: &Progress, now: Instant) -> bool {
        let Some(restarts) = progress.unwatched() else {
            self.0 = None;
            return progress.is_settled();
        };
        let (before, since) = *self.0.get_or_insert((restarts, now));
        if before != restarts {
            self.0 = Some((restarts, now));
        }
        before == restarts && now >= since + STEADY_FOR
    }

    /// Completes when it has lasted long enough; never while something is still to come.
    pub async fn until(&self) {
        match self.0 {
            Some((_, since)) => tokio::time::sleep_until(since + STEADY_FOR).await,
            None => std::future::pending().await,
        }
    }

    /// When what was waited for had come: now, if it was not watched.
    pub fn since(&self) -> std::time::Instant {
        self.0.map_or_else(Instant::now, |(_, since)| since).into_std()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::progress::tests::{alloc, eval, restarted};

    #[test]
    fn what_restarts_is_waited_for_and_what_stays_up_is_not() {
        let (mut progress, mut steady) = (Progress::starting("e1"), Steady::default());
        let started_at = Instant::now();
        let mut is_over =
            |progress: &Progress, after: u32| steady.is_over(progress, started_at + STEADY_FOR / 2 * after);
        progress.take(vec![eval("e1", "complete"), alloc("a1", "e1", "running", 5)]);
        assert!(progress.is_settled() && !is_over(&progress, 0));
        progress.take(vec![alloc("a1", "e1", "pending", 6)]);
        assert!(!is_over(&progress, 3));
        progress.take(vec![restarted("a1", "e1", 1, 7)]);
        assert!(!is_over(&progress, 4) && !is_over(&progress, 5));
        progress.take(vec![restarted("a1", "e1", 2, 8)]);
        assert!(!is_over(&progress, 6), "it was started again between two looks");
        assert!(is_over(&progress, 8));
    }

    #[test]
    fn what_has_failed_for_good_is_waited_for_no_longer() {
        let mut progress = Progress::starting("e1");
        progress.take(vec![eval("e1", "complete"), alloc("a1", "e1", "failed", 5)]);
        assert!(Steady::default().is_over(&progress, Instant::now()));
    }
}

//! The time as the agent sees it: it never goes back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Wall-clock time at the agent's start, and monotonic time since: a jump of the wall clock moves no deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
    started_ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_ns: nanos(since) }
    }

    /// Nanoseconds since the Unix epoch.
    pub(crate) fn now_ns(self) -> u64 {
        self.started_ns + nanos(self.started.elapsed())
    }

    pub(crate) fn instant(self, at_ns: u64) -> Instant {
        self.started + Duration::from_nanos(at_ns.saturating_sub(self.started_ns))
    }

    /// Sleeps until then; forever without a time.
    pub(crate) async fn sleep_until(self, at_ns: Option<u64>) {
        match at_ns {
            Some(at_ns) => tokio::time::sleep_until(self.instant(at_ns)).await,
            None => std::future::pending().await,
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

//! The time as simulated nodes see it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch that never go back.
#[derive(Debug)]
pub(super) struct MonotonicClock {
    started: Instant,
    started_ns: u64,
}

impl MonotonicClock {
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_ns: nanos(since) }
    }

    pub fn now_ns(&self) -> u64 {
        self.started_ns + nanos(self.started.elapsed())
    }

    /// How long it is until then.
    pub fn until(&self, at_ns: u64) -> Duration {
        Duration::from_nanos(at_ns.saturating_sub(self.now_ns()))
    }
}

/// A duration as times here are counted.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

//! The clock of a run.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds since the first request, and the same on the clocks of others.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct RunClock {
    started_at: Instant,
    started_ns: u64,
}

impl RunClock {
    /// A clock that starts at 0 now.
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started_at: Instant::now(), started_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// Seconds since the start.
    pub fn now_s(&self) -> f64 {
        self.started_at.elapsed().as_secs_f64()
    }

    /// The time of the run, in seconds, at `ns` nanoseconds since the Unix epoch.
    pub fn at_s(&self, ns: u64) -> f64 {
        (i128::from(ns) - i128::from(self.started_ns)) as f64 / 1e9
    }
}

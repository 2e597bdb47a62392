//! The clocks. All code that decides gets the time from here as an argument.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use berth_controller::Now;
use berth_model::Timestamp;

/// Nanoseconds since the Unix epoch.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Both clocks, the monotonic one since this was made.
pub(crate) struct Clocks(Instant);

impl Default for Clocks {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clocks {
    /// The current time of both clocks.
    pub fn now(&self) -> Now {
        Now { wall: now(), monotonic: self.0.elapsed() }
    }
}

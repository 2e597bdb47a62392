//! The wall clock; everything that decides is told the time from here.

use std::time::{SystemTime, UNIX_EPOCH};

use berth_model::Timestamp;

/// Nanoseconds since the Unix epoch.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

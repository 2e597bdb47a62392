//! The machine's clock, in the seconds since 1970 that certificates count in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970 by this machine's clock; 0 before that.
pub fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A moment as users write it, as `2026-11-23 01:02:03 UTC`.
pub(crate) fn moment(secs: u64) -> String {
    // Beyond the year 9999 there is no such text, and some certificates do end there.
    let time = UNIX_EPOCH + Duration::from_secs(secs.min(253_402_300_799));
    let text = humantime::format_rfc3339_seconds(time).to_string();
    format!("{} UTC", text.trim_end_matches('Z').replace('T', " "))
}

/// A span of time by its two largest units.
pub(crate) fn span(secs: u64) -> String {
    berth_duration::rounded(Duration::from_secs(secs))
}

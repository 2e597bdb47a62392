//! Times and durations for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// How long ago a moment is, in its two largest units: `3m12s ago`; empty for never.
pub fn age(moment_ns: u64, now_ns: u64) -> String {
    if moment_ns == 0 {
        return String::new();
    }
    format!("{} ago", lasting(now_ns.saturating_sub(moment_ns)))
}

/// How long a span is, in its two largest units: `1m30s`.
pub fn lasting(span_ns: u64) -> String {
    berth_duration::rounded(Duration::from_nanos(span_ns))
}

/// The moment in UTC; empty for never.
pub fn rfc3339(moment_ns: u64) -> String {
    if moment_ns == 0 {
        return String::new();
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(moment_ns)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let second = 1_000_000_000;
        for (seconds, expected) in
            [(0, "0s ago"), (59, "59s ago"), (192, "3m12s ago"), (7_200, "2h ago"), (90_061, "1d1h ago")]
        {
            assert_eq!(age(second, second + seconds * second), expected);
        }
        assert_eq!(age(0, second), "");
        assert_eq!(age(5 * second, second), "0s ago");
        assert_eq!(rfc3339(1_700_000_000 * second), "2023-11-14T22:13:20Z");
    }
}

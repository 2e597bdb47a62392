//! Closes connections when the certificates shown for them expire.

use std::time::Duration;

use berth_tls::now_secs;

/// Longest sleep between two checks: the clock may be set meanwhile.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// How long a certificate is still valid at `now`; none when it has expired. Both are in seconds since 1970, and it is valid for the
/// whole of its last second, as in handshakes.
fn remaining(not_after: u64, now: u64) -> Option<Duration> {
    not_after.checked_sub(now).map(|secs| Duration::from_secs(secs + 1))
}

/// Completes once a certificate that is valid until then, in seconds since 1970, has expired.
pub(crate) async fn until_expired(not_after: u64) {
    while let Some(remaining) = remaining(not_after, now_secs()) {
        tokio::time::sleep(remaining.min(POLL_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_certificate_is_good_until_its_last_second_is_over() {
        assert_eq!(remaining(10, 8), Some(Duration::from_secs(3)));
        assert_eq!(remaining(10, 10), Some(Duration::from_secs(1)));
        assert_eq!(remaining(10, 11), None);
        until_expired(now_secs() - 1).await;
    }
}

//! Closes connections when the certificates shown for them expire.

use std::time::Duration;

use berth_tls::now_secs;

/// How often the clock is looked at: it may have been set.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// How long a certificate that is valid until then, in seconds since 1970, is good still by this machine's clock; none when it
/// has expired. It is good for the whole of its last second, as handshakes have it.
fn left(not_after: u64, now: u64) -> Option<Duration> {
    not_after.checked_sub(now).map(|left| Duration::from_secs(left + 1))
}

/// Completes once a certificate that is valid until then, in seconds since 1970, has expired.
pub(crate) async fn until_expired(not_after: u64) {
    while let Some(left) = left(not_after, now_secs()) {
        tokio::time::sleep(left.min(POLL_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_certificate_is_good_until_its_last_second_is_over() {
        assert_eq!(left(10, 8), Some(Duration::from_secs(3)));
        assert_eq!(left(10, 10), Some(Duration::from_secs(1)));
        assert_eq!(left(10, 11), None);
        until_expired(now_secs() - 1).await;
    }
}

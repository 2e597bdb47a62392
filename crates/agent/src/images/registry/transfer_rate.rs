//! The least that whoever is downloaded from must send: a download holds a place that others wait for.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;

use super::error::PullError;
use super::transport::piece;

/// How long a server may take until it is judged, and the least that it must send by then, on average.
const RATE_AFTER: Duration = Duration::from_secs(60);
const RATE_BYTES_PER_S_MIN: u64 = 16 << 10;

/// How fast one download is, not counting the time that its receiver takes.
#[derive(Debug, Default)]
pub(crate) struct TransferRate {
    waited: Duration,
    bytes: u64,
}

impl TransferRate {
    /// The next piece of a body; none at its end.
    ///
    /// # Errors
    /// When none comes, and when too little has come by now.
    pub(crate) async fn piece(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, PullError> {
        let waiting_since = Instant::now();
        let Some(piece) = piece(body).await? else { return Ok(None) };
        self.add(waiting_since.elapsed(), piece.len());
        if self.is_too_slow() {
            return Err(PullError::temporary(format!(
                "the server sends less than {RATE_BYTES_PER_S_MIN} bytes a second"
            )));
        }
        Ok(Some(piece))
    }

    pub(crate) fn add(&mut self, waited: Duration, bytes: usize) {
        self.waited += waited;
        self.bytes += bytes as u64;
    }

    fn is_too_slow(&self) -> bool {
        self.waited >= RATE_AFTER && self.bytes / self.waited.as_secs() < RATE_BYTES_PER_S_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_download_is_distinguished_from_a_late_first_byte() {
        let mut rate = TransferRate::default();
        rate.add(Duration::from_secs(59), 1);
        assert!(!rate.is_too_slow());
        rate.add(Duration::from_secs(1), 60 * (16 << 10));
        assert!(!rate.is_too_slow());
        rate.add(Duration::from_secs(10), 1);
        assert!(rate.is_too_slow());
    }
}

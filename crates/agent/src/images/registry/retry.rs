//! Asking again what may be answered in a moment.

use std::time::Duration;

use tokio::time::sleep;

use super::error::{Again, PullError};

/// How often one thing is asked for without any progress.
const TRIES_MAX: u32 = 5;
const FIRST_PAUSE_MS: u64 = 250;

/// Counts the tries without progress.
#[derive(Debug, Default)]
pub(crate) struct Tries(u32);

impl Tries {
    /// There was some progress.
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }

    /// Whether there is a next try after this error.
    pub(crate) fn may_help(&self, error: &PullError) -> bool {
        matches!(error.again, Again::Soon(_)) && self.0 + 1 < TRIES_MAX
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The same error, when asking again makes no sense or has been done often enough.
    pub(crate) async fn pause(&mut self, error: PullError) -> Result<(), PullError> {
        let Again::Soon(after_s) = error.again else { return Err(error) };
        if !self.may_help(&error) {
            return Err(error);
        }
        self.0 += 1;
        let own = Duration::from_millis(FIRST_PAUSE_MS << self.0);
        sleep(after_s.map_or(own, |seconds| own.max(Duration::from_secs(seconds)))).await;
        Ok(())
    }
}

/// Asks until there is an answer, or an error that stays.
pub(crate) async fn retried<T, F: Future<Output = Result<T, PullError>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, PullError> {
    let mut tries = Tries::default();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => tries.pause(error).await?,
        }
    }
}

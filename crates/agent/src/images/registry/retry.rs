//! Asking again what may be answered in a moment.

use std::time::Duration;

use tokio::time::sleep;

use super::error::{Again, PullError};

/// How often one thing is asked for without any progress.
const TRIES_MAX: u32 = 5;
const FIRST_PAUSE_MS: u64 = 250;

/// How often one that another follows is asked.
const TRIES_OF_MIRROR_MAX: u32 = 1;

/// How much is tried before somebody else is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// There is nobody else.
    Last,
    /// Somebody else has the same: one that does not answer must not hold up every pull.
    Followed,
}

impl Patience {
    fn tries_max(self) -> u32 {
        if self == Self::Last { TRIES_MAX } else { TRIES_OF_MIRROR_MAX }
    }
}

/// Counts the tries without progress.
#[derive(Debug)]
pub(crate) struct Tries {
    done: u32,
    max: u32,
}

impl Default for Tries {
    fn default() -> Self {
        Self::of(Patience::Last)
    }
}

impl Tries {
    fn of(patience: Patience) -> Self {
        Self { done: 0, max: patience.tries_max() }
    }

    /// There was some progress.
    pub(crate) fn reset(&mut self) {
        self.done = 0;
    }

    /// Whether there is a next try after this error.
    pub(crate) fn may_help(&self, error: &PullError) -> bool {
        matches!(error.again, Again::Soon(_)) && self.done + 1 < self.max
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
        self.done += 1;
        let own = Duration::from_millis(FIRST_PAUSE_MS << self.done);
        sleep(after_s.map_or(own, |seconds| own.max(Duration::from_secs(seconds)))).await;
        Ok(())
    }
}

/// Asks until there is an answer, or an error that stays.
pub(crate) async fn retried<T, F: Future<Output = Result<T, PullError>>>(
    patience: Patience,
    mut ask: impl FnMut() -> F,
) -> Result<T, PullError> {
    let mut tries = Tries::of(patience);
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => tries.pause(error).await?,
        }
    }
}

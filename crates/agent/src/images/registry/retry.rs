//! Retries of requests that may succeed in a moment.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep;

use super::error::{PullError, RetryAfter};

/// How often one thing is asked for without any progress.
const TRIES_MAX: u32 = 5;
const FIRST_PAUSE_MS: u64 = 250;

/// How often one that another follows is asked.
const TRIES_OF_MIRROR_MAX: u32 = 1;

/// How often one that cannot be reached is asked, and for how long at most: what waits for it has a restart policy, which says
/// when it is tried again.
const TRIES_UNREACHABLE_MAX: u32 = 3;
const UNREACHABLE_MAX: Duration = Duration::from_secs(5);

/// Why a pull is waiting, for its events; empty while only the answer is awaited.
#[derive(Debug)]
pub(crate) struct WaitReason(watch::Sender<String>);

impl Default for WaitReason {
    fn default() -> Self {
        Self(watch::Sender::new(String::new()))
    }
}

impl WaitReason {
    /// Receives each change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<String> {
        self.0.subscribe()
    }

    /// Sets the reason; empty for none.
    pub(crate) fn set(&self, text: String) {
        self.0.send_if_modified(|current| {
            let changes = *current != text;
            *current = text;
            changes
        });
    }
}

/// How often a registry is tried before the next one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// There is no other registry.
    Last,
    /// Another registry has the same: one that does not answer must not delay every pull.
    Followed,
}

impl RetryPolicy {
    fn tries_max(self) -> u32 {
        if self == Self::Last { TRIES_MAX } else { TRIES_OF_MIRROR_MAX }
    }
}

/// Counts the tries without progress.
#[derive(Debug)]
pub(crate) struct Retries<'a> {
    done: u32,
    max: u32,
    since: Instant,
    wait_reason: Option<&'a WaitReason>,
}

impl Default for Retries<'_> {
    fn default() -> Self {
        Self { done: 0, max: RetryPolicy::Last.tries_max(), since: Instant::now(), wait_reason: None }
    }
}

impl<'a> Retries<'a> {
    /// Retries that publish why they wait.
    pub(crate) fn of(policy: RetryPolicy, wait_reason: &'a WaitReason) -> Self {
        Self { max: policy.tries_max(), wait_reason: Some(wait_reason), ..Self::default() }
    }

    /// Starts counting again, after some progress.
    pub(crate) fn reset(&mut self) {
        (self.done, self.since) = (0, Instant::now());
    }

    /// Whether there is a next try after this error.
    pub(crate) fn may_help(&self, error: &PullError) -> bool {
        self.is_worth_it(error, self.since.elapsed())
    }

    fn is_worth_it(&self, error: &PullError, spent: Duration) -> bool {
        self.done + 1 < self.max_after(error)
            && (error.retry_after != RetryAfter::Unreachable || spent < UNREACHABLE_MAX)
    }

    fn max_after(&self, error: &PullError) -> u32 {
        match error.retry_after {
            RetryAfter::Soon(_) => self.max,
            RetryAfter::Unreachable => self.max.min(TRIES_UNREACHABLE_MAX),
            RetryAfter::Never | RetryAfter::Later => 0,
        }
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The same error, when asking again makes no sense or has been done often enough.
    pub(crate) async fn pause(&mut self, error: PullError) -> Result<(), PullError> {
        if !self.may_help(&error) {
            return Err(error);
        }
        let after_s = if let RetryAfter::Soon(after_s) = error.retry_after { after_s } else { None };
        self.done += 1;
        if let Some(wait_reason) = self.wait_reason {
            let (next, max) = (self.done + 1, self.max_after(&error));
            wait_reason.set(format!("{}; try {next} of {max} follows", error.reason));
        }
        let own = Duration::from_millis(FIRST_PAUSE_MS << self.done);
        sleep(after_s.map_or(own, |seconds| own.max(Duration::from_secs(seconds)))).await;
        Ok(())
    }
}

/// Asks until there is an answer, or an error that stays.
pub(crate) async fn retried<T, F: Future<Output = Result<T, PullError>>>(
    policy: RetryPolicy,
    wait_reason: &WaitReason,
    mut request: impl FnMut() -> F,
) -> Result<T, PullError> {
    let mut tries = Retries::of(policy, wait_reason);
    loop {
        match request().await {
            Ok(answer) => {
                wait_reason.set(String::new());
                return Ok(answer);
            }
            Err(error) => tries.pause(error).await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it is asked where the same comes again and again, each time after so long.
    fn attempts(policy: RetryPolicy, error: &PullError, each: Duration) -> u32 {
        let wait_reason = WaitReason::default();
        let mut tries = Retries::of(policy, &wait_reason);
        while tries.is_worth_it(error, each * (tries.done + 1)) {
            tries.done += 1;
        }
        tries.done + 1
    }

    #[test]
    fn one_that_cannot_be_reached_is_asked_less_often_and_not_for_long() {
        let (moment, long) = (Duration::from_millis(1), Duration::from_secs(4));
        let (gone, busy, wrong) =
            (PullError::unreachable("x"), PullError::temporary("x"), PullError::permanent("x"));
        let of = |error, each| attempts(RetryPolicy::Last, error, each);
        assert_eq!([of(&gone, moment), of(&busy, moment), of(&wrong, moment)], [3, 5, 1]);
        // A resolver that asks servers that are not there takes its time.
        assert_eq!([of(&gone, long), of(&gone, long * 2), of(&busy, long)], [2, 1, 5]);
        assert_eq!(attempts(RetryPolicy::Followed, &gone, moment), 1, "somebody else has the same");
    }
}

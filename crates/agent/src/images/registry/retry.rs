//! Asking again what may be answered in a moment.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep;

use super::error::{Again, PullError};

/// How often one thing is asked for without any progress.
const TRIES_MAX: u32 = 5;
const FIRST_PAUSE_MS: u64 = 250;

/// How often one that another follows is asked.
const TRIES_OF_MIRROR_MAX: u32 = 1;

/// How often one that cannot be reached is asked, and for how long at most: what waits for it has a restart policy, which says
/// when it is tried again.
const TRIES_UNREACHABLE_MAX: u32 = 3;
const UNREACHABLE_MAX: Duration = Duration::from_secs(5);

/// What is being waited for, for people; empty for nothing but the answer.
#[derive(Debug)]
pub(crate) struct Waits(watch::Sender<String>);

impl Default for Waits {
    fn default() -> Self {
        Self(watch::Sender::new(String::new()))
    }
}

impl Waits {
    /// Hears of each change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<String> {
        self.0.subscribe()
    }

    /// What is waited for from now on; empty for nothing.
    pub(crate) fn say(&self, text: String) {
        self.0.send_if_modified(|said| {
            let changes = *said != text;
            *said = text;
            changes
        });
    }
}

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
pub(crate) struct Tries<'a> {
    done: u32,
    max: u32,
    since: Instant,
    waits: Option<&'a Waits>,
}

impl Default for Tries<'_> {
    fn default() -> Self {
        Self { done: 0, max: Patience::Last.tries_max(), since: Instant::now(), waits: None }
    }
}

impl<'a> Tries<'a> {
    /// Says what it waits for.
    pub(crate) fn of(patience: Patience, waits: &'a Waits) -> Self {
        Self { max: patience.tries_max(), waits: Some(waits), ..Self::default() }
    }

    /// There was some progress.
    pub(crate) fn reset(&mut self) {
        (self.done, self.since) = (0, Instant::now());
    }

    /// Whether there is a next try after this error.
    pub(crate) fn may_help(&self, error: &PullError) -> bool {
        self.is_worth_it(error, self.since.elapsed())
    }

    fn is_worth_it(&self, error: &PullError, spent: Duration) -> bool {
        self.done + 1 < self.max_after(error)
            && (error.again != Again::Unreachable || spent < UNREACHABLE_MAX)
    }

    fn max_after(&self, error: &PullError) -> u32 {
        match error.again {
            Again::Soon(_) => self.max,
            Again::Unreachable => self.max.min(TRIES_UNREACHABLE_MAX),
            Again::Never | Again::Later => 0,
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
        let after_s = if let Again::Soon(after_s) = error.again { after_s } else { None };
        self.done += 1;
        if let Some(waits) = self.waits {
            let (next, max) = (self.done + 1, self.max_after(&error));
            waits.say(format!("{}; try {next} of {max} follows", error.reason));
        }
        let own = Duration::from_millis(FIRST_PAUSE_MS << self.done);
        sleep(after_s.map_or(own, |seconds| own.max(Duration::from_secs(seconds)))).await;
        Ok(())
    }
}

/// Asks until there is an answer, or an error that stays.
pub(crate) async fn retried<T, F: Future<Output = Result<T, PullError>>>(
    patience: Patience,
    waits: &Waits,
    mut ask: impl FnMut() -> F,
) -> Result<T, PullError> {
    let mut tries = Tries::of(patience, waits);
    loop {
        match ask().await {
            Ok(answer) => {
                waits.say(String::new());
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
    fn asked(patience: Patience, error: &PullError, each: Duration) -> u32 {
        let waits = Waits::default();
        let mut tries = Tries::of(patience, &waits);
        while tries.is_worth_it(error, each * (tries.done + 1)) {
            tries.done += 1;
        }
        tries.done + 1
    }

    #[test]
    fn one_that_cannot_be_reached_is_asked_less_often_and_not_for_long() {
        let (moment, long) = (Duration::from_millis(1), Duration::from_secs(4));
        let (gone, busy, wrong) = (PullError::unreachable("x"), PullError::soon("x"), PullError::never("x"));
        let of = |error, each| asked(Patience::Last, error, each);
        assert_eq!([of(&gone, moment), of(&busy, moment), of(&wrong, moment)], [3, 5, 1]);
        // A resolver that asks servers that are not there takes its time.
        assert_eq!([of(&gone, long), of(&gone, long * 2), of(&busy, long)], [2, 1, 5]);
        assert_eq!(asked(Patience::Followed, &gone, moment), 1, "somebody else has the same");
    }
}

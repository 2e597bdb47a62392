//! Retries while a server does not answer for a moment, as during a restart or an election.

use std::time::{Duration, Instant};

use crate::failure::{Exit, Failure};

/// How long a command that follows something retries while the server does not answer.
const AWAY_MAX_S: u64 = 60;
const RETRY_MS: u64 = 500;

/// Since when the server has not answered, if it does not.
#[derive(Debug, Default)]
pub struct ServerOutage {
    since: Option<Instant>,
}

impl ServerOutage {
    /// To be called when the server answered: the outage is over.
    pub fn answered(&mut self) {
        self.since = None;
    }

    /// Whether the last request was not answered.
    pub fn is_away(&self) -> bool {
        self.since.is_some()
    }

    /// How long to wait before the next try; the failure itself where a retry cannot help, or after `AWAY_MAX_S`.
    pub fn retry_after(&mut self, failure: Failure) -> Result<Duration, Failure> {
        let passes = matches!(failure.exit(), Exit::Unreachable | Exit::TimedOut | Exit::Failed);
        let since = *self.since.get_or_insert_with(Instant::now);
        if passes && since.elapsed() < Duration::from_secs(AWAY_MAX_S) {
            Ok(Duration::from_millis(RETRY_MS))
        } else {
            Err(failure)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_refuses_is_not_borne() {
        let mut patience = ServerOutage::default();
        assert!(patience.retry_after(Failure::new(Exit::Unreachable, "away")).is_ok() && patience.is_away());
        assert!(patience.retry_after(Failure::new(Exit::Denied, "not yours")).is_err());
        patience.answered();
        assert!(!patience.is_away());
    }
}

//! Bearing with a server that is away for a moment, as while it is started again or another one comes to lead.

use std::time::{Duration, Instant};

use crate::failure::{Exit, Failure};

/// How long a command that looks on bears with a server that does not answer.
const AWAY_MAX_S: u64 = 60;
/// Between two tries.
const RETRY_MS: u64 = 500;

/// Since when a server has been away, if it is.
#[derive(Debug, Default)]
pub struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// The server answered.
    pub fn answered(&mut self) {
        self.since = None;
    }

    /// Whether it did not answer last.
    pub fn is_away(&self) -> bool {
        self.since.is_some()
    }

    /// How long to wait before it is asked again; the failure itself where that is of no use, or it was borne for long
    /// enough.
    pub fn bear(&mut self, failure: Failure) -> Result<Duration, Failure> {
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
        let mut patience = Patience::default();
        assert!(patience.bear(Failure::new(Exit::Unreachable, "away")).is_ok() && patience.is_away());
        assert!(patience.bear(Failure::new(Exit::Denied, "not yours")).is_err());
        patience.answered();
        assert!(!patience.is_away());
    }
}

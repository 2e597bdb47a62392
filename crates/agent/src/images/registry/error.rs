//! Why an image could not be pulled.

use crate::failure::Failure;
use crate::lifecycle::{StartFailure, StartFailureKind};

/// How much of what a registry says of a refusal is passed on.
const COMPLAINT_CHARS_MAX: usize = 200;

/// Whether, and when, trying again makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryAfter {
    /// The answer stays the same.
    Never,
    /// The same registry may answer otherwise in a moment, or in this many seconds if it says so.
    Soon(Option<u64>),
    /// Nothing is to be reached there, as is known at once: a name that is not known, a port where nobody listens, no way.
    Unreachable,
    /// What the host lacks now it may have later; another registry would not help.
    Later,
}

/// The error of an image that could not be pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PullError {
    pub(crate) retry_after: RetryAfter,
    /// The reason, and what to do about it, for people. It does not repeat the image's name.
    pub(crate) reason: String,
}

impl PullError {
    /// An error that trying again cannot help.
    pub(crate) fn permanent(reason: impl Into<String>) -> Self {
        Self { retry_after: RetryAfter::Never, reason: reason.into() }
    }

    /// The network, or the other end of it, for now.
    pub(crate) fn temporary(reason: impl Into<String>) -> Self {
        Self { retry_after: RetryAfter::Soon(None), reason: reason.into() }
    }

    /// An error of a host that cannot be reached.
    pub(crate) fn unreachable(reason: impl Into<String>) -> Self {
        Self { retry_after: RetryAfter::Unreachable, reason: reason.into() }
    }

    /// What is reported to a task whose image this was.
    pub(crate) fn failure(&self, image: &str) -> StartFailure {
        let kind = match self.retry_after {
            RetryAfter::Never => StartFailureKind::Driver,
            RetryAfter::Soon(_) | RetryAfter::Unreachable | RetryAfter::Later => {
                StartFailureKind::Recoverable
            }
        };
        StartFailure { kind, message: format!("get the image {image}: {}", self.reason) }
    }
}

impl From<Failure> for PullError {
    fn from(failure: Failure) -> Self {
        Self { retry_after: RetryAfter::Later, reason: failure.to_string() }
    }
}

/// What a registry says, made fit for a line of text.
pub(crate) fn plain(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(COMPLAINT_CHARS_MAX).collect::<String>().trim().to_owned()
}

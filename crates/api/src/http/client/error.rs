//! Why a request failed.

use std::{error::Error, time::Duration};

use hyper::Method;

use super::Address;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The server's own answer.
    #[error(transparent)]
    Refused(#[from] ErrorResponse),
    /// Nobody answers.
    #[error("cannot reach the server at {address}: {reason}{}", what_to_do(reason))]
    Unreachable {
        /// The address.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// Somebody answers, and is not believed or does not believe.
    #[error("cannot talk to the server at {address}: {reason}")]
    Untrusted {
        /// The address.
        address: String,
        /// What is wrong with whose certificate.
        reason: String,
    },
    /// The server took too long.
    #[error("{url} did not answer within {after:?}")]
    TimedOut {
        /// What was asked.
        url: String,
        /// How long was waited.
        after: Duration,
    },
    /// The connection broke before the answer was complete: what was asked may have been done.
    #[error("answer of {url} broke off: {reason}")]
    Broken {
        /// What was asked.
        url: String,
        /// What the system said.
        reason: String,
    },
    /// The answer is not what such a server answers.
    #[error("answer of {url} cannot be understood: {reason}; is it a berth server?")]
    Decode {
        /// What was asked.
        url: String,
        /// What does not fit.
        reason: String,
    },
    /// The request cannot be sent.
    #[error("request cannot be written: {0}")]
    Encode(String),
}

/// A server's answer that is not one of success.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ErrorResponse {
    /// The HTTP status.
    pub status: u16,
    /// The server's words.
    pub text: String,
    /// What was asked.
    pub url: String,
}

impl ApiError {
    /// The HTTP status, when the server answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refused) => Some(refused.status),
            _ => None,
        }
    }

    /// Why there is no answer. A connection that broke once the request was on its way is not one that never came about: the
    /// server may have done what was asked.
    pub(super) fn without_answer(
        address: &Address,
        (method, url): (&Method, String),
        error: &hyper_util::client::legacy::Error,
    ) -> Self {
        if error.is_connect() || berth_tls::explain(error).is_some() {
            return Self::from_cause(address, error);
        }
        let cause = last_cause(error);
        let reason = cause.to_string();
        if cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return Self::Decode { url, reason };
        }
        let reason =
            if method.is_safe() { reason } else { format!("{reason}; the change may have been made") };
        Self::Broken { url, reason }
    }

    /// Why a connection did not come about. The last cause says that; those above it say only that something did. Of TLS there
    /// are better words.
    pub(super) fn from_cause(address: &Address, error: &(dyn Error + 'static)) -> Self {
        let address = address.to_string();
        if let Some(reason) = berth_tls::explain(error) {
            return Self::Untrusted { address, reason };
        }
        Self::Unreachable { address, reason: last_cause(error).to_string() }
    }
}

/// How the system begins to say that nobody knows a host by its name.
const UNKNOWN_HOST: &str = "failed to lookup address information";

/// What to do where nobody answers.
fn what_to_do(reason: &str) -> &'static str {
    if reason.starts_with(UNKNOWN_HOST) {
        "; is the name of the host right?"
    } else {
        "; is berth running? start one with `berth dev`"
    }
}

fn last_cause<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause
}

//! Why a request failed.

use std::{error::Error, time::Duration};

use super::Address;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The server's own answer.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nobody answers.
    #[error("cannot reach the server at {address}: {reason}; is berth running? start one with `berth dev`")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// Somebody answers, and is not believed or does not believe.
    #[error("cannot talk to the server at {address}: {reason}")]
    Untrusted {
        /// Where.
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
    /// The connection broke before the answer was complete.
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
pub struct Refused {
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

    pub(super) fn unreachable(address: &Address, error: &hyper_util::client::legacy::Error) -> Self {
        Self::from_cause(address, error)
    }

    /// Why a connection did not come about. The last cause says that; those above it say only that something did. Of TLS there
    /// are better words.
    pub(super) fn from_cause(address: &Address, error: &(dyn Error + 'static)) -> Self {
        let address = address.to_string();
        if let Some(reason) = berth_tls::explain(error) {
            return Self::Untrusted { address, reason };
        }
        let mut cause = error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        Self::Unreachable { address, reason: cause.to_string() }
    }
}

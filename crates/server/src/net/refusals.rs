//! Logs connections that a port refuses, at most one line a second with the count of the others, so that strangers cannot fill a disk.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::OwnPort;

/// Time between two lines.
const LOGGED_EVERY: Duration = Duration::from_secs(1);

/// The refusals of one port.
pub(crate) struct RefusalLog {
    port: OwnPort,
    last: Mutex<LastLine>,
}

#[derive(Default)]
struct LastLine {
    at: Option<Instant>,
    /// Refusals since then, to be counted in the next line.
    unreported: u64,
}

impl RefusalLog {
    pub fn new(port: OwnPort) -> Self {
        Self { port, last: Mutex::default() }
    }

    /// Reports a refusal, unless another one was reported just now; then the next line has its count.
    pub fn log(&self, peer: SocketAddr, reason: &str) {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.at.is_some_and(|at| now < at + LOGGED_EVERY) {
            last.unreported += 1;
            return;
        }
        let others = std::mem::take(&mut last.unreported);
        last.at = Some(now);
        tracing::warn!(%peer, others, "refused a connection to {}: {reason}", self.port.name());
    }
}

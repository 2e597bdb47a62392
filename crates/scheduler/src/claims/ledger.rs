//! The claims that planners and the controller share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Claims;

/// A handle to the one ledger of a server.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Claims>>);

impl Ledger {
    /// The claims, for a moment: planners and the controller wait for each other here.
    pub fn lock(&self) -> MutexGuard<'_, Claims> {
        // Whoever panicked with it planned; claims are added and taken away in whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

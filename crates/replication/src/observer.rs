//! Who is told of what happens to the replicated state.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use berth_model::{event::Applied, store::Store};

/// Follows the state. The first two are called by the apply loop, which waits for them: they should only hand over.
pub trait Observer: Send + Sync + 'static {
    /// Entries were applied, in order; `store` is the state after the last of them. Comes before their proposers are
    /// answered.
    fn on_applied(&self, store: &Store, applied: &[Applied]);

    /// The state was replaced by that of a snapshot; what was known before is void. Also the first call of all, with
    /// what is there before the log is replayed.
    fn on_restored(&self, store: &Store);

    /// This server began or ceased to lead, or the term changed.
    fn on_leadership(&self, term: u64, leader: bool);

    /// The log can no longer be written, or the state no longer be trusted: nothing is acknowledged from now on, and
    /// the process should end. Called once.
    fn on_fatal(&self, reason: &str);
}

/// Tells the observer of the first fatal failure, and of no other.
pub(crate) struct Alarm {
    observer: Arc<dyn Observer>,
    raised: AtomicBool,
}

impl Alarm {
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, raised: AtomicBool::new(false) }
    }

    pub fn raise(&self, reason: &str) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            tracing::error!(reason, "the log has stopped; nothing is acknowledged any more");
            self.observer.on_fatal(reason);
        }
    }
}

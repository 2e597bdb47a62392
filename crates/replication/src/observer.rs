//! Who is told of what happens to the replicated state.

use berth_model::{event::Applied, store::Store};

/// Follows the state. The first two are called by the apply loop, which waits for them: they should only hand over.
pub trait Observer: Send + Sync + 'static {
    /// Entries were applied, in order; `store` is the state after the last of them. Comes before their proposers are
    /// answered.
    fn on_applied(&self, store: &Store, applied: &[Applied]);

    /// The state was replaced by that of a snapshot; what was known before is void.
    fn on_restored(&self, store: &Store);

    /// This server began or ceased to lead, or the term changed.
    fn on_leadership(&self, term: u64, leader: bool);

    /// The log can no longer be written, or the state no longer be trusted: nothing is acknowledged from now on, and
    /// the process should end. Called once.
    fn on_fatal(&self, reason: &str);
}

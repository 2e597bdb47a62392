//! What follows the store has one shape: made from any state, kept in step with its changes, so that a new leader can
//! make it at any moment, and a test can make it again after any history and compare.

use berth_model::{Timestamp, event::StateChange, store::Store};

/// Something that the leader derives from the state and keeps up to date with its changes.
pub(crate) trait Follower: Sized {
    /// All that a state leads to.
    fn of(store: &Store) -> Self;

    /// Takes in one applied change; `store` is the state after it, `at` the time of its entry.
    fn on_change(&mut self, store: &Store, change: &StateChange, at: Timestamp);

    /// When something of it is due next, if anything waits for a time.
    fn due_at(&self) -> Option<Timestamp> {
        None
    }
}

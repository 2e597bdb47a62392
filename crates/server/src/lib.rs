//! The IO shell of a server: HTTP in front, agents' connections behind, and the engine between them.

mod events;
pub mod state;
mod watch;

pub use events::{Batch, Change, EventHub, Subscription, SubscriptionError};
pub use watch::{WatchKey, Watchers};

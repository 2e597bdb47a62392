//! The IO shell of a server: HTTP in front, agents' connections behind, and the engine between them.

mod convert;
mod agents;
mod engine;
mod server;
mod events;
pub mod http;
pub mod state;
mod watch;

pub use events::{Batch, Change, EventHub, Subscription, SubscriptionError};
pub use server::{Server, ServerConfig, StartError};
pub use watch::{WatchKey, Watchers};

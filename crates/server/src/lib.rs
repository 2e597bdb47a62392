//! The IO shell of a server: HTTP in front, agents' connections behind, and the engine between them.

mod access;
mod agents;
pub mod audit;
mod checkpoint;
mod clock;
mod cluster;
mod convert;
mod engine;
mod events;
mod gauge_guard;
mod histogram;
pub mod http;
mod keyring;
mod memory;
mod net;
pub mod nomad;
mod peers;
mod ports;
mod process;
pub mod protocol;
mod server;
pub mod shared;
mod watch;
mod workload;

pub use agents::AgentLimits;
pub use berth_replication::Recovery;
pub use cluster::{LeaderReport, LeadersMajority, MajorityContact, OwnProgress, recover, rejoin};
pub use engine::{HostState, PlannersConfig};
pub use events::{Change, EventBatch, EventHub, FollowFrom, Subscription, SubscriptionError};
pub use keyring::{Kek, Keyring};
pub use memory::bound_heaps;
pub use net::{AddressLimit, PortAcceptor, TlsConfig};
pub use server::{LOG_VERSIONS, Server, ServerConfig, StartError};
pub use watch::{WatchKey, Watchers};

/// Why work on another thread failed: what a panic says may hold secrets, and stays on standard error.
pub(crate) const PANICKED: &str = "internal error: a panic; see the server's log";

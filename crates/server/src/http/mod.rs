//! The plumbing of the HTTP API: connections and their limits, routing, bodies, blocking reads, streams, caching. It
//! knows no resource: the [`Table`] of routes that it serves is handed to it.

pub(crate) mod age;
pub(crate) mod agents;
pub(crate) mod api;
pub(crate) mod array;
pub(crate) mod audited;
pub(crate) mod block;
mod body;
pub(crate) mod call;
pub(crate) mod caller;
mod changed;
mod cluster;
mod connection;
pub(crate) mod counters;
pub(crate) mod credentials;
mod depth;
pub(crate) mod duration;
pub(crate) mod failure;
mod filter;
mod guard;
mod gzip;
pub(crate) mod handshake;
pub(crate) mod heavy;
mod held;
pub(crate) mod ids;
mod json_text;
pub(crate) mod lease;
mod limits;
pub(crate) mod list;
pub(crate) mod openapi;
pub(crate) mod propose;
pub(crate) mod query;
pub(crate) mod rates;
pub(crate) mod reply;
mod rooms;
pub(crate) mod router;
pub mod routes;
mod serve;
mod shared;
pub(crate) mod stream;
pub(crate) mod text;
mod waiting;

pub use limits::{Limits, RequestRates};
pub use routes::Table;
pub use serve::serve;
pub(crate) use serve::serve_with_tasks;

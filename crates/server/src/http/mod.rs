//! The HTTP API: Nomad's paths and JSON, one file a resource, all named by one table in [`routes`].

mod agent;
mod allocations;
mod api;
mod array;
mod block;
mod body;
mod call;
mod connection;
mod counters;
mod depth;
mod duration;
mod evaluations;
mod events;
mod failure;
mod guard;
mod ids;
mod job;
mod jobs;
mod limits;
mod list;
mod logs;
mod metrics;
mod namespaces;
mod nodes;
mod propose;
mod query;
mod reply;
mod router;
pub mod routes;
mod serve;
mod status;
mod stream;

pub use limits::Limits;
pub use serve::serve;

#[cfg(test)]
mod tests;

//! The HTTP API: Nomad's paths and JSON, one file a resource, all named by one table in [`routes`].

mod absent;
mod addresses;
mod age;
mod agent;
mod allocations;
mod api;
mod array;
mod block;
mod body;
mod call;
mod caller;
mod client;
mod connection;
mod counters;
mod deployments;
mod depth;
mod duration;
mod evaluations;
mod events;
mod failure;
mod filter;
mod guard;
mod gzip;
mod heavy;
mod ids;
mod job;
mod jobs;
mod limits;
mod list;
mod logs;
mod metrics;
mod namespaces;
mod nodes;
mod openapi;
mod operator;
mod pools;
mod propose;
mod query;
mod quotas;
mod reply;
mod router;
pub mod routes;
mod scaling;
mod scheduling;
mod search;
mod serve;
mod shared;
mod snapshot;
mod status;
mod stream;
mod system;

pub use limits::Limits;
pub use serve::serve;

#[cfg(test)]
mod tests;

//! Nomad's HTTP API: a file or folder for each resource, their conversions in [`convert`], and the one table of routes
//! that names them all.

mod absent;
mod acl;
mod agent;
mod allocations;
mod client;
mod convert;
mod deployments;
mod evaluations;
mod events;
mod files;
mod job;
mod jobs;
mod joins;
mod keyring;
mod logs;
mod metrics;
mod monitor;
mod namespaces;
mod nodes;
mod operations;
mod operator;
mod parameters;
mod pieces;
mod pools;
mod quotas;
mod recovery;
mod scaling;
mod scheduling;
mod search;
mod servers;
mod snapshot;
mod status;
mod system;
mod table;
mod tenant_limits;
mod variables;
mod well_known;

pub use system::collectable;
pub use table::table;

#[cfg(test)]
pub(crate) mod tests;

//! `berth operator`: commands for those who operate the servers.

mod api;
mod audit;
mod debug;
mod root;
mod scheduler;
mod snapshot;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with the servers.
#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// Send a request to the HTTP API, and print the answer
    Api(api::ApiArgs),
    /// Check the record of who did what
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Write what a bug report needs into an archive, without secrets
    Debug(debug::DebugArgs),
    /// Look at the root keys, which encrypt variables and sign identities; replace them
    #[command(subcommand)]
    Root(root::RootCommand),
    /// Look at how the cluster places, or change it
    #[command(subcommand)]
    Scheduler(scheduler::SchedulerCommand),
    /// Save the state of the cluster, or put a saved one in its place
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
}

impl OperatorCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Api(api) => api.run(global),
            Self::Audit(verb) => verb.run(),
            Self::Debug(debug) => block_on(debug.run(&global.remote()?)),
            Self::Root(verb) => block_on(verb.run(&global.remote()?)),
            Self::Scheduler(verb) => block_on(verb.run(&global.remote()?)),
            Self::Snapshot(verb) => verb.run(global),
        }
    }
}

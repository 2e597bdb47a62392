//! `berth job`: run, watch and stop jobs.

mod detail;
mod file;
mod run;
mod status;
mod stop;
mod validate;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Register a job, and follow it until it runs
    Run(run::Run),
    /// List the jobs, or show one in detail
    Status(status::Status),
    /// Stop a job, and wait until it has ended
    Stop(stop::Stop),
    /// Check a job file, without a server
    Validate(validate::Validate),
}

impl Verb {
    /// Does it.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Run(run) => block_on(run.run(&global.remote()?)),
            Self::Status(status) => block_on(status.run(&global.remote()?)),
            Self::Stop(stop) => block_on(stop.run(&global.remote()?)),
            Self::Validate(validate) => validate.run(),
        }
    }
}

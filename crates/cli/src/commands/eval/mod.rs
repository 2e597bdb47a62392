//! `berth eval`: evaluations, in which the scheduler decides what changes for a job.

mod list;
pub mod status;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with evaluations.
#[derive(Debug, Subcommand)]
pub enum EvalCommand {
    /// List evaluations
    List(list::EvalListArgs),
    /// Show an evaluation: what it placed, and what it could not
    Status(status::EvalStatusArgs),
}

impl EvalCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::List(list) => block_on(list.run(&remote)),
            Self::Status(status) => block_on(status.run(&remote)),
        }
    }
}

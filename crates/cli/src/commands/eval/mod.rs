//! `berth eval`: evaluations, in which the scheduler decides what a job needs.

mod list;
pub mod status;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with evaluations.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List evaluations
    List(list::List),
    /// Show an evaluation: what it placed, and what it could not
    Status(status::Status),
}

impl Verb {
    /// Runs the command.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::List(list) => block_on(list.run(&remote)),
            Self::Status(status) => block_on(status.run(&remote)),
        }
    }
}

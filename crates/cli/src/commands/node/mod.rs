//! `berth node`: the machines.

mod detail;
mod status;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List the nodes, or show one in detail
    Status(status::Status),
}

impl Verb {
    /// Does it.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Status(status) => block_on(status.run(&global.remote()?)),
        }
    }
}

//! `berth system`: housekeeping.

use clap::Subcommand;

use crate::{failure::Failure, global::Global, output, remote::block_on};

/// What can be done with the system.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Collect garbage: delete what has ended, without waiting until it is old
    Gc,
}

impl Verb {
    /// Runs the command.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::Gc => block_on(remote.collect_garbage())?,
        }
        output::tell("what has ended is garbage-collected");
        Ok(())
    }
}

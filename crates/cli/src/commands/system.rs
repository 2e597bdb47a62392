//! `berth system`: housekeeping.

use clap::Subcommand;

use crate::{failure::Failure, global::Global, output, remote::block_on};

/// What can be done with the system.
#[derive(Debug, Subcommand)]
pub enum SystemCommand {
    /// Collect garbage: delete what has ended, without waiting until it is old
    Gc,
}

impl SystemCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::Gc => block_on(remote.collect_garbage())?,
        }
        output::eprint_line("what has ended is garbage-collected");
        Ok(())
    }
}

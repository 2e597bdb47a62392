//! `berth job`: run, watch and stop jobs.

mod file;
mod validate;

use clap::Subcommand;

use crate::{failure::Failure, global::Global};

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check a job file without a server
    Validate(validate::Validate),
}

impl Verb {
    /// Does it.
    pub fn run(self, _global: &Global) -> Result<(), Failure> {
        match self {
            Self::Validate(validate) => validate.run(),
        }
    }
}

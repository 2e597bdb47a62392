//! `berth var`: variables, small secrets that are encrypted at rest.

mod format;
mod get;
mod init;
mod list;
mod purge;
mod put;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with variables.
#[derive(Debug, Subcommand)]
pub enum VarCommand {
    /// List the variables, without what is in them
    List(list::VarListArgs),
    /// Show a variable with what is in it
    Get(get::VarGetArgs),
    /// Write a variable: its items take the place of those before
    Put(put::VarPutArgs),
    /// Delete a variable
    Purge(purge::VarPurgeArgs),
    /// Write a file that describes a variable, to begin with
    Init(init::VarInitArgs),
}

impl VarCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::List(list) => block_on(list.run(&global.remote()?)),
            Self::Get(get) => block_on(get.run(&global.remote()?)),
            Self::Put(put) => block_on(put.run(&global.remote()?)),
            Self::Purge(purge) => block_on(purge.run(&global.remote()?)),
            Self::Init(init) => init.run(),
        }
    }
}

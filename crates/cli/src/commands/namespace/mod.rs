//! `berth namespace`: namespaces, which tenants have their jobs in.

mod apply;
mod delete;
mod list;
mod status;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with namespaces.
#[derive(Debug, Subcommand)]
pub enum NamespaceCommand {
    /// List the namespaces
    List(list::NamespaceListArgs),
    /// Show one namespace
    Status(status::NamespaceStatusArgs),
    /// Make a namespace, or change it; what is not named stays as it is
    Apply(apply::NamespaceApplyArgs),
    /// Delete an empty namespace
    Delete(delete::NamespaceDeleteArgs),
}

impl NamespaceCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::List(list) => block_on(list.run(&remote)),
            Self::Status(status) => block_on(status.run(&remote)),
            Self::Apply(apply) => block_on(apply.run(&remote)),
            Self::Delete(delete) => block_on(delete.run(&remote)),
        }
    }
}

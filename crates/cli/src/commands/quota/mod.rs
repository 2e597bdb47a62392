//! `berth quota`: quotas, the resources that namespaces are guaranteed and may not exceed.

mod apply;
mod delete;
mod list;
mod status;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with quotas.
#[derive(Debug, Subcommand)]
pub enum QuotaCommand {
    /// List the quotas
    List(list::QuotaListArgs),
    /// Show one quota, and what counts for it
    Status(status::QuotaStatusArgs),
    /// Make a quota, or change it; what is not named stays as it is
    Apply(apply::QuotaApplyArgs),
    /// Delete a quota that no namespace refers to
    Delete(delete::QuotaDeleteArgs),
}

impl QuotaCommand {
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

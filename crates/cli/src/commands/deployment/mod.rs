//! `berth deployment`: deployments, which roll new versions of jobs out.

mod change;
mod evidence;
mod list;
pub mod status;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

pub use evidence::Evidence;

/// What can be done with deployments.
#[derive(Debug, Subcommand)]
pub enum DeploymentCommand {
    /// List deployments
    List(list::DeploymentListArgs),
    /// Show a deployment: how far each group has come
    Status(status::DeploymentStatusArgs),
    /// Promote a deployment's canaries: they replace the old allocations
    Promote(change::DeploymentPromoteArgs),
    /// Fail a deployment; with `auto_revert`, go back to the last stable version
    Fail(change::DeploymentFailArgs),
    /// Pause a deployment
    Pause(change::DeploymentPauseArgs),
    /// Resume a paused deployment
    Resume(change::DeploymentResumeArgs),
    /// Unblock a deployment that waits for other regions
    Unblock(change::DeploymentUnblockArgs),
}

impl DeploymentCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::List(list) => block_on(list.run(&remote)),
            Self::Status(status) => block_on(status.run(&remote)),
            Self::Promote(promote) => block_on(promote.run(&remote)),
            Self::Fail(fail) => block_on(fail.run(&remote)),
            Self::Pause(pause) => block_on(pause.run(&remote)),
            Self::Resume(resume) => block_on(resume.run(&remote)),
            Self::Unblock(unblock) => block_on(unblock.run(&remote)),
        }
    }
}

//! `berth operator scheduler`: the scheduler's configuration.

mod get;
mod set;

use clap::Subcommand;

use crate::{failure::Failure, remote::Remote};

/// What can be done with the scheduler's configuration.
#[derive(Debug, Subcommand)]
pub enum SchedulerCommand {
    /// Show the scheduler's configuration
    #[command(visible_alias = "get-config")]
    Get(get::SchedulerGetArgs),
    /// Change the scheduler's configuration; what is not named stays as it is
    #[command(visible_alias = "set-config")]
    Set(set::SchedulerSetArgs),
}

impl SchedulerCommand {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::Get(get) => get.run(remote).await,
            Self::Set(set) => set.run(remote).await,
        }
    }
}

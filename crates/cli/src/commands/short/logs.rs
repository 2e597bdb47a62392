//! `berth logs`: what a job printed, without looking for its allocation first.

use clap::Args;

use crate::{commands::alloc::LogOptions, complete, failure::Failure, global::Global, remote::block_on};

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// A job's id, or an allocation's, or the beginning of either
    #[arg(value_name = "JOB|ALLOC", add = complete::jobs_or_allocations())]
    id: String,
    #[command(flatten)]
    options: LogOptions,
}

impl Logs {
    /// Prints it.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        block_on(async {
            let alloc = remote.job_or_allocation(&self.id).await?;
            self.options.print(&remote, &alloc).await
        })
    }
}

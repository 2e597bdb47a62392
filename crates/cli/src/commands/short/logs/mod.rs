//! `berth logs`: what a job printed, without looking for its allocations first.

mod all;
mod lines;

use clap::Args;

use crate::{
    commands::alloc::LogOptions,
    complete,
    failure::{Exit, Failure},
    global::Global,
    remote::{Remote, block_on},
};

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// A job's id, or an allocation's, or the beginning of either; all allocations of a job are followed together
    #[arg(value_name = "JOB|ALLOC", add = complete::jobs_or_allocations())]
    id: String,
    #[command(flatten)]
    options: LogOptions,
}

impl Logs {
    /// Prints it.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        block_on(self.print(&remote))
    }

    async fn print(&self, remote: &Remote) -> Result<(), Failure> {
        if self.options.follows()
            && let Some(job) = self.job(remote).await?
            && all::has_several(remote, &job, &self.options).await?
        {
            return all::follow(remote, &job, &self.options).await;
        }
        let alloc = remote.job_or_allocation(&self.id).await?;
        self.options.print(remote, &alloc).await
    }

    /// The job that is meant; none when it is an allocation.
    async fn job(&self, remote: &Remote) -> Result<Option<String>, Failure> {
        match remote.find_job(&self.id).await {
            Ok(job) => Ok(Some(job)),
            Err(failure) if failure.exit() == Exit::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

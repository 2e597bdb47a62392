//! `berth logs`: the output of a job's tasks, without looking up allocations first.

mod all;
mod lines;

use clap::Args;

use self::all::LogScope;
use crate::{
    commands::alloc::{LogOptions, OfJobArgs},
    complete,
    failure::{Exit, Failure},
    global::Global,
    remote::{Remote, block_on},
};

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Id or prefix of a job or an allocation; for a job the logs of all allocations that have not ended are merged
    #[arg(value_name = "JOB|ALLOC", add = complete::jobs_or_allocations())]
    id: String,
    #[command(flatten)]
    of_job: OfJobArgs,
    #[command(flatten)]
    options: LogOptions,
    /// Standard output and standard error together, each line prefixed with its origin
    #[arg(long, conflicts_with = "stderr")]
    both: bool,
}

impl LogsArgs {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        block_on(self.print(&remote))
    }

    async fn print(&self, remote: &Remote) -> Result<(), Failure> {
        let streams = if self.both { vec!["stdout", "stderr"] } else { vec![self.options.stream()] };
        if !self.of_job.is_given()
            && let Some(job) = self.job(remote).await?
            && all::has_several(remote, &job, &self.options).await?
        {
            return all::print(remote, &LogScope::Job(job), &self.options, &streams).await;
        }
        let alloc = self.of_job.find_either(remote, &self.id).await?;
        if self.both {
            return all::print(remote, &LogScope::Alloc(alloc), &self.options, &streams).await;
        }
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

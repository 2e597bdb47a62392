//! `berth logs`: what a job printed, without looking for its allocation first.

use clap::Args;

use crate::{
    commands::alloc::LogOptions,
    complete,
    failure::{Exit, Failure},
    global::Global,
    output::{self, short_id},
    remote::{Remote, block_on},
};

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
            let alloc = self.allocation(&remote).await?;
            self.options.print(&remote, &alloc).await
        })
    }

    /// The allocation that is meant: of a job the newest, rather one that runs than one that has ended.
    async fn allocation(&self, remote: &Remote) -> Result<String, Failure> {
        let job = match remote.find_job(&self.id).await {
            Ok(job) => job,
            Err(failure) if failure.exit() == Exit::NotFound => {
                return remote.find_allocation(&self.id).await;
            }
            Err(failure) => return Err(failure),
        };
        let allocs = remote.job_allocations(&job).await?;
        let newest = allocs.iter().max_by_key(|alloc| (alloc.client_status == "running", alloc.create_index));
        let newest = newest.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("job {job} has no allocation yet"))
                .help(format!("berth job status {job}"))
        })?;
        if allocs.len() > 1 {
            output::tell(&format!("of {}, allocation {}:", newest.name, short_id(&newest.id)));
        }
        Ok(newest.id.clone())
    }
}

//! `berth job stop`: stops a job, and waits until its allocations have ended.

use std::time::Instant;

use clap::{Args, value_parser};

use crate::{
    complete,
    confirm::ConfirmArgs,
    failure::Failure,
    follow::{JobChange, Progress, follow},
    output::{self, clean},
    remote::Remote,
};

/// Arguments of `job stop`.
#[derive(Debug, Args)]
pub struct JobStopArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Delete the job and its history at once
    #[arg(long)]
    purge: bool,
    /// Priority of the evaluation, 1 to 100; defaults to the job's
    #[arg(long, value_name = "PRIORITY", value_parser = value_parser!(u8).range(1..=100))]
    eval_priority: Option<u8>,
    /// Do not wait; print the evaluation's id and exit
    #[arg(long)]
    detach: bool,
    /// Print full ids
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl JobStopArgs {
    /// Stops and waits.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        self.confirm.on_terminal("stop job", &id, &self.id)?;
        let since = Instant::now();
        let allocs = remote.job_allocations(&id).await?;
        let stopped = remote.deregister(&id, self.purge, self.eval_priority).await?;
        if self.detach {
            return Ok(output::print(&format!("{}\n", stopped.eval_id))?);
        }
        let eval = output::id(&stopped.eval_id, self.verbose);
        output::eprint_line(&format!("job {} is stopped, evaluation {eval}", clean(&id)));
        let change = JobChange { job: &id, index: stopped.job_modify_index };
        follow(remote, &change, Progress::stopping(&stopped.eval_id, &allocs), since).await?;
        Ok(())
    }
}

//! `berth exec`: runs a command within a task, which is found by its job.

use clap::Args;

use crate::{
    commands::alloc::{ExecOptions, OfJobArgs},
    complete,
    failure::Failure,
    global::Global,
    remote::block_on,
};

/// Arguments of `exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    #[command(flatten)]
    options: ExecOptions,
    #[command(flatten)]
    of_job: OfJobArgs,
    /// Id or prefix of a job or an allocation
    #[arg(value_name = "JOB|ALLOC", add = complete::jobs_or_allocations())]
    id: String,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl ExecArgs {
    /// Runs it, and ends as it ends.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        block_on(async {
            let alloc = self.of_job.find_either(&remote, &self.id).await?;
            self.options.exec(&remote, &alloc, &self.command).await
        })
    }
}

//! `berth job eval`: evaluates a job.

use std::time::Instant;

use clap::Args;

use super::outcome::{AcceptedChange, DetachArgs, ends_of};
use crate::{complete, failure::Failure, remote::Remote};

/// Arguments of `job eval`.
#[derive(Debug, Args)]
pub struct JobEvalArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Replace failed allocations now, whatever delay and attempts their `reschedule` block says
    #[arg(long)]
    force_reschedule: bool,
    #[command(flatten)]
    detach: DetachArgs,
}

impl JobEvalArgs {
    /// Asks for an evaluation, and follows it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let id = remote.find_job(&self.id).await?;
        let evaluated = remote.evaluate(&id, self.force_reschedule).await?;
        let accepted = AcceptedChange {
            job: &id,
            action: "evaluated",
            eval: &evaluated.eval_id,
            index: evaluated.eval_create_index,
            since,
            ends: ends_of(remote, &id).await,
        };
        self.detach.or_follow(remote, &accepted).await
    }
}

//! `berth job eval`: evaluates a job.

use std::time::Instant;

use clap::Args;

use super::outcome::{Accepted, Detach, ends_of};
use crate::{complete, failure::Failure, remote::Remote};

/// Arguments of `job eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Replace failed allocations now, whatever delay and attempts their `reschedule` block says
    #[arg(long)]
    force_reschedule: bool,
    #[command(flatten)]
    detach: Detach,
}

impl Eval {
    /// Asks for an evaluation, and follows it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let id = remote.find_job(&self.id).await?;
        let evaluated = remote.evaluate(&id, self.force_reschedule).await?;
        let accepted = Accepted {
            job: &id,
            deed: "evaluated",
            eval: &evaluated.eval_id,
            index: evaluated.eval_create_index,
            since,
            ends: ends_of(remote, &id).await,
        };
        self.detach.or_follow(remote, &accepted).await
    }
}

//! `berth job periodic`: periodic jobs.

use std::time::Instant;

use clap::{Args, Subcommand};

use super::outcome::{AcceptedChange, DetachArgs};
use crate::{complete, failure::Failure, remote::Remote};

/// What can be done with periodic jobs.
#[derive(Debug, Subcommand)]
pub enum JobPeriodicCommand {
    /// Run a periodic job now
    Force(JobPeriodicForceArgs),
}

/// Arguments of `job periodic force`.
#[derive(Debug, Args)]
pub struct JobPeriodicForceArgs {
    /// The periodic job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    #[command(flatten)]
    detach: DetachArgs,
}

impl JobPeriodicCommand {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::Force(force) => force.run(remote).await,
        }
    }
}

impl JobPeriodicForceArgs {
    /// Makes the job of this moment, and follows it.
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let id = remote.find_job(&self.id).await?;
        let forced = remote.force(&id).await?;
        let eval = remote.evaluation(&forced.eval_id).await?;
        let accepted = AcceptedChange {
            job: &eval.job_id,
            action: "registered",
            eval: &eval.id,
            index: forced.index,
            since,
            ends: true,
        };
        self.detach.or_follow(remote, &accepted).await
    }
}

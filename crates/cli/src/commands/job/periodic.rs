//! `berth job periodic`: jobs that run by the clock.

use std::time::Instant;

use clap::{Args, Subcommand};

use super::outcome::{Accepted, Detach};
use crate::{complete, failure::Failure, remote::Remote};

/// What can be done with periodic jobs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a periodic job now
    Force(Force),
}

/// Arguments of `job periodic force`.
#[derive(Debug, Args)]
pub struct Force {
    /// The periodic job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    #[command(flatten)]
    detach: Detach,
}

impl Verb {
    /// Runs the command.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::Force(force) => force.run(remote).await,
        }
    }
}

impl Force {
    /// Makes the job of this moment, and follows it.
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let id = remote.find_job(&self.id).await?;
        let forced = remote.force(&id).await?;
        let eval = remote.evaluation(&forced.eval_id).await?;
        let accepted = Accepted {
            job: &eval.job_id,
            deed: "registered",
            eval: &eval.id,
            index: forced.index,
            since,
            ends: true,
        };
        self.detach.or_follow(remote, &accepted).await
    }
}

//! `berth job revert`: goes back to an earlier version of a job.

use std::time::Instant;

use clap::Args;

use super::outcome::{Accepted, Detach};
use crate::{complete, failure::Failure, remote::Remote};

/// Arguments of `job revert`.
#[derive(Debug, Args)]
pub struct Revert {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// The version to go back to; `berth job history JOB` lists them
    #[arg(value_name = "VERSION")]
    version: u64,
    #[command(flatten)]
    detach: Detach,
}

impl Revert {
    /// Registers the earlier version anew, and follows it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let id = remote.find_job(&self.id).await?;
        let reverted = remote.revert(&id, self.version).await?;
        let accepted = Accepted {
            job: &id,
            deed: &format!("back at version {}", self.version),
            eval: &reverted.eval_id,
            index: reverted.job_modify_index,
            since,
        };
        self.detach.or_follow(remote, &accepted).await
    }
}

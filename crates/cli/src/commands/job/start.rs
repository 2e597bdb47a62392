//! `berth job start`: starts a stopped job again.

use std::time::Instant;

use berth_api::http::JobServerFields;
use clap::Args;
use serde::Deserialize;

use super::outcome::{AcceptedChange, DetachArgs, ends};
use crate::{
    complete,
    failure::{Exit, Failure},
    output::clean,
    remote::Remote,
};

/// Arguments of `job start`.
#[derive(Debug, Args)]
pub struct JobStartArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    #[command(flatten)]
    detach: DetachArgs,
}

impl JobStartArgs {
    /// Registers the version that was stopped again, and follows it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let id = remote.find_job(&self.id).await?;
        let job = remote.job(&id).await?;
        if job["Stop"] != true {
            return Err(Failure::new(Exit::Failed, format!("job {} is not stopped", clean(&id)))
                .help(format!("`berth job restart {}` restarts what runs", clean(&id))));
        }
        let standing = JobServerFields::deserialize(&job).unwrap_or_default();
        let started = remote.revert(&id, standing.version, Some(standing.version)).await?;
        let accepted = AcceptedChange {
            job: &id,
            action: "started again",
            eval: &started.eval_id,
            index: started.job_modify_index,
            since,
            ends: ends(&job),
        };
        self.detach.or_follow(remote, &accepted).await
    }
}

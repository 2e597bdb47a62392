//! `berth job run`: registers a job, and follows it until its allocations run.

use std::time::Instant;

use clap::Args;

use super::{
    file::JobFile,
    outcome::{Accepted, Detach},
};
use crate::{failure::Failure, remote::Remote};

/// Arguments of `job run`.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    file: JobFile,
    #[command(flatten)]
    detach: Detach,
    /// Register only if the job was last changed at this index, 0 for a job that is not there yet
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
}

impl Run {
    /// Registers and follows.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let asked = self.file.parse_for_server(remote.namespace())?;
        let job = &asked.job;
        let remote = remote.in_namespace(&job.key.namespace);
        let registered = remote.register(job, self.check_index).await;
        let registered = registered.map_err(|failure| asked.refused(failure))?;
        asked.warn(&registered.warnings);
        let accepted = Accepted {
            job: &job.key.id,
            deed: "registered",
            eval: &registered.eval_id,
            index: registered.job_modify_index,
            since,
            // One that only makes other jobs never ends.
            ends: job.job_type.runs_to_completion() && !job.only_launches(),
        };
        self.detach.or_follow(&remote, &accepted).await
    }
}

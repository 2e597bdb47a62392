//! `berth job run`: registers a job, and follows it until its allocations run.

use std::time::Instant;

use berth_api::http::JobRegister;
use clap::{Args, value_parser};
use serde_json::json;

use super::{
    file::JobFile,
    outcome::{AcceptedChange, DetachArgs},
};
use crate::{failure::Failure, output, remote::Remote};

/// Arguments of `job run`.
#[derive(Debug, Args)]
pub struct JobRunArgs {
    #[command(flatten)]
    file: JobFile,
    #[command(flatten)]
    detach: DetachArgs,
    /// Register only if the job was last changed at this index; 0 if it must not exist yet
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
    /// Read the file as JSON
    #[arg(long)]
    json: bool,
    /// Print the job as JSON, as it would be registered, and exit
    #[arg(long, conflicts_with_all = ["check_index", "detach", "verbose"])]
    output: bool,
    /// Keep the counts of existing groups
    #[arg(long)]
    preserve_counts: bool,
    /// Keep the resources of existing tasks
    #[arg(long)]
    preserve_resources: bool,
    /// Priority of the evaluation, 1 to 100; defaults to the job's
    #[arg(long, value_name = "PRIORITY", value_parser = value_parser!(i64).range(1..=100))]
    eval_priority: Option<i64>,
    /// Accepted for compatibility with Nomad: Berth has no policies on jobs, and the server says so
    #[arg(long)]
    policy_override: bool,
}

impl JobRunArgs {
    /// Registers and follows.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let file = self.file.as_json(self.json);
        if self.output {
            let job = file.parse_in(remote.namespace())?;
            return Ok(output::print(&format!("{:#}\n", json!({ "Job": berth_jobfile::to_json(&job) })))?);
        }
        let prepared = file.parse_for_server(remote.namespace())?;
        let conditions = JobRegister {
            enforce_index: self.check_index.is_some(),
            job_modify_index: self.check_index.unwrap_or_default(),
            preserve_counts: self.preserve_counts,
            preserve_resources: self.preserve_resources,
            eval_priority: self.eval_priority.unwrap_or_default(),
            policy_override: self.policy_override,
            submission: file.submission(&prepared),
            ..JobRegister::default()
        };
        let job = &prepared.job;
        let remote = remote.in_namespace(&job.key.namespace);
        let registered = remote.register(job, conditions).await;
        let registered = registered.map_err(|failure| prepared.refused(failure))?;
        prepared.warn(&registered.warnings);
        let accepted = AcceptedChange {
            job: &job.key.id,
            action: "registered",
            eval: &registered.eval_id,
            index: registered.job_modify_index,
            since,
            // One that only makes other jobs never ends.
            ends: job.job_type.runs_to_completion() && !job.only_launches(),
        };
        self.detach.or_follow(&remote, &accepted).await
    }
}

//! `berth job revert`: registers an earlier version of a job again.

use std::time::Instant;

use clap::Args;

use super::outcome::{AcceptedChange, DetachArgs, ends_of};
use crate::{
    complete,
    failure::{Exit, Failure},
    output::clean,
    remote::{DiffAgainst, Remote},
};

/// Arguments of `job revert`.
#[derive(Debug, Args)]
pub struct JobRevertArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Number or tag of the version to revert to; `berth job history JOB` lists them
    #[arg(value_name = "VERSION|TAG")]
    version: String,
    #[command(flatten)]
    detach: DetachArgs,
}

impl JobRevertArgs {
    /// Registers the earlier version again, and follows it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let id = remote.find_job(&self.id).await?;
        let version = self.number(remote, &id).await?;
        let reverted = remote.revert(&id, version, None).await?;
        let accepted = AcceptedChange {
            job: &id,
            action: &format!("back at version {version}"),
            eval: &reverted.eval_id,
            index: reverted.job_modify_index,
            since,
            ends: ends_of(remote, &id).await,
        };
        self.detach.or_follow(remote, &accepted).await
    }

    async fn number(&self, remote: &Remote, id: &str) -> Result<u64, Failure> {
        if let Ok(number) = self.version.parse() {
            return Ok(number);
        }
        let versions = remote.job_versions(id, DiffAgainst::None).await?.versions;
        let tagged = versions.iter().find(|job| job["VersionTag"]["Name"] == self.version.as_str());
        tagged.and_then(|job| job["Version"].as_u64()).ok_or_else(|| {
            let message = format!("no version of job {} has the tag `{}`", clean(id), clean(&self.version));
            Failure::new(Exit::NotFound, message).help(format!("berth job history {}", clean(id)))
        })
    }
}

//! `berth job tag`: tags for versions of jobs; a tagged version is kept.

use clap::{Args, Subcommand};

use crate::{
    complete,
    failure::Failure,
    output::{clean, eprint_line},
    remote::Remote,
};

/// What can be done with tags.
#[derive(Debug, Subcommand)]
pub enum JobTagCommand {
    /// Give a version of a job a name, by which it is found and for which it is kept
    Apply(JobTagApplyArgs),
    /// Take the name away again
    Unset(JobTagUnsetArgs),
}

/// Arguments of `job tag apply`.
#[derive(Debug, Args)]
pub struct JobTagApplyArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Tag: no spaces or slashes, and not only digits
    #[arg(long, value_name = "TAG")]
    name: String,
    /// Version; defaults to the newest
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

/// Arguments of `job tag unset`.
#[derive(Debug, Args)]
pub struct JobTagUnsetArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// The tag
    #[arg(long, value_name = "TAG")]
    name: String,
}

impl JobTagCommand {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::Apply(apply) => apply.run(remote).await,
            Self::Unset(unset) => unset.run(remote).await,
        }
    }
}

impl JobTagApplyArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        remote
            .tag_version(&id, &self.name, self.version, self.description.as_deref().unwrap_or_default())
            .await?;
        let which =
            self.version.map_or("the newest version".to_owned(), |version| format!("version {version}"));
        eprint_line(&format!("{which} of job {} has the tag {}", clean(&id), clean(&self.name)));
        Ok(())
    }
}

impl JobTagUnsetArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        remote.untag_version(&id, &self.name).await?;
        eprint_line(&format!("no version of job {} has the tag {} any more", clean(&id), clean(&self.name)));
        Ok(())
    }
}

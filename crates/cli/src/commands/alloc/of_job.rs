//! An id that is an allocation's or, with `-job`, a job's: the newest of its allocations is meant.

use clap::Args;

use crate::{failure::Failure, remote::Remote};

/// Whether the id is a job's, and which of its groups is meant.
#[derive(Debug, Args)]
pub struct OfJob {
    /// The id is a job's: its newest allocation is meant, rather one that runs than one that has ended
    #[arg(long)]
    job: bool,
    /// With -job: its newest allocation of this group
    #[arg(long, value_name = "GROUP", requires = "job")]
    group: Option<String>,
}

impl OfJob {
    /// The whole id of the allocation that an id of one begins, or with `-job` of the job's newest.
    pub async fn find(&self, remote: &Remote, id: &str) -> Result<String, Failure> {
        if !self.job {
            return remote.find_allocation(id).await;
        }
        self.newest(remote, id).await
    }

    /// The same of an id that may also be a job's without `-job`.
    pub async fn find_either(&self, remote: &Remote, id: &str) -> Result<String, Failure> {
        if !self.job {
            return remote.job_or_allocation(id).await;
        }
        self.newest(remote, id).await
    }

    /// Whether one allocation is meant, of whatever the id is.
    pub fn is_given(&self) -> bool {
        self.job
    }

    async fn newest(&self, remote: &Remote, id: &str) -> Result<String, Failure> {
        let job = remote.find_job(id).await?;
        Ok(remote.newest_allocation_of(&job, self.group.as_deref()).await?.id)
    }
}

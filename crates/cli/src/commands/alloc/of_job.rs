//! The id of an allocation or, with `-job`, of a job, for the newest of its allocations.

use clap::Args;

use crate::{
    failure::{Exit, Failure},
    remote::{Remote, begins_an_id},
};

/// Whether the id is a job's, and which of its groups is meant.
#[derive(Debug, Args)]
pub struct OfJobArgs {
    /// Take the id as a job's, and choose its newest allocation, a running one if there is any
    #[arg(long)]
    job: bool,
    /// With -job: the newest allocation of this group
    #[arg(long, value_name = "GROUP", requires = "job")]
    group: Option<String>,
}

impl OfJobArgs {
    /// The whole id of the allocation that an id of one begins, or with `-job` of the job's newest.
    pub async fn find(&self, remote: &Remote, id: &str) -> Result<String, Failure> {
        if !self.job {
            return remote.find_allocation(id).await.map_err(|failure| or_a_job(failure, id));
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

    /// Whether the id stands for a single allocation.
    pub fn is_given(&self) -> bool {
        self.job
    }

    async fn newest(&self, remote: &Remote, id: &str) -> Result<String, Failure> {
        let job = remote.find_job(id).await?;
        Ok(remote.newest_allocation_of(&job, self.group.as_deref()).await?.id)
    }
}

/// Says of what cannot be the id of an allocation how a job is named.
fn or_a_job(failure: Failure, id: &str) -> Failure {
    if failure.exit() != Exit::NotFound || begins_an_id(id) {
        return failure;
    }
    failure.help("add `-job` where that is the id of a job")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_beginning_of_an_id_may_be_a_job() {
        let hint = |id: &str| or_a_job(Failure::new(Exit::NotFound, "none"), id).to_string();
        assert!(hint("web").contains("`-job`"));
        assert!(!hint("abc-1").contains("`-job`"));
        let denied = or_a_job(Failure::new(Exit::Denied, "no"), "web").to_string();
        assert!(!denied.contains("`-job`"), "{denied}");
    }
}

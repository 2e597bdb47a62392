//! `berth job deployments` and `berth job promote`: a job's deployments, by the job's id.

use clap::Args;

use crate::{
    complete,
    failure::{Exit, Failure},
    filter::FilterArgs,
    output::{self, clean, eprint_line},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `job deployments`.
#[derive(Debug, Args)]
pub struct JobDeploymentsArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only the newest
    #[arg(long)]
    latest: bool,
    #[command(flatten)]
    show: ShowArgs,
}

impl JobDeploymentsArgs {
    /// Prints them, newest first.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        let read = async |remote: &Remote| {
            let mut deployments = remote.job_deployments(&id).await?;
            if self.latest {
                let newest = deployments.into_iter().max_by_key(|deployment| deployment.create_index);
                deployments = newest.into_iter().collect();
            }
            Ok(deployments)
        };
        self.show.show(&self.filter.of(remote), read).await
    }
}

/// Arguments of `job promote`.
#[derive(Debug, Args)]
pub struct JobPromoteArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Only this group; repeatable
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Do not wait, which it does not do in any case
    #[arg(long, hide = true)]
    detach: bool,
    /// Print full ids
    #[arg(long)]
    verbose: bool,
}

impl JobPromoteArgs {
    /// Lets the canaries of the job's last deployment take the place of the old allocations.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let job = remote.find_job(&self.id).await?;
        let deployment = remote.job_deployment(&job).await?.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("job {} has no deployment", clean(&job)))
                .help("only a job with an `update` block has deployments")
        })?;
        remote.promote(&deployment.id, &self.group).await?;
        let id = output::id(&deployment.id, self.verbose);
        eprint_line(&format!("deployment {id} of job {} is promoted", clean(&job)));
        Ok(())
    }
}

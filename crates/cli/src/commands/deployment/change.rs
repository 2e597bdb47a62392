//! `berth deployment promote`, `fail`, `pause`, `resume` and `unblock`.

use berth_api::http::DeploymentChanged;
use clap::Args;

use crate::{
    complete,
    failure::Failure,
    output::{self, short_id},
    remote::Remote,
};

/// Which deployment.
#[derive(Debug, Args)]
struct DeploymentArg {
    /// Id or prefix of the deployment
    #[arg(value_name = "DEPLOYMENT", add = complete::deployments())]
    id: String,
    /// For compatibility: nothing is waited for
    #[arg(long, hide = true)]
    detach: bool,
    /// Print full ids
    #[arg(long)]
    verbose: bool,
}

/// Arguments of `deployment promote`.
#[derive(Debug, Args)]
pub struct DeploymentPromoteArgs {
    #[command(flatten)]
    deployment: DeploymentArg,
    /// Only this group; repeatable
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
}

/// Arguments of `deployment fail`.
#[derive(Debug, Args)]
pub struct DeploymentFailArgs {
    #[command(flatten)]
    deployment: DeploymentArg,
}

/// Arguments of `deployment pause`.
#[derive(Debug, Args)]
pub struct DeploymentPauseArgs {
    #[command(flatten)]
    deployment: DeploymentArg,
}

/// Arguments of `deployment resume`.
#[derive(Debug, Args)]
pub struct DeploymentResumeArgs {
    #[command(flatten)]
    deployment: DeploymentArg,
}

/// Arguments of `deployment unblock`.
#[derive(Debug, Args)]
pub struct DeploymentUnblockArgs {
    #[command(flatten)]
    deployment: DeploymentArg,
}

impl DeploymentPromoteArgs {
    /// Promotes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.deployment.id).await?;
        self.deployment.print_change(&id, "promoted", &remote.promote(&id, &self.group).await?);
        Ok(())
    }
}

impl DeploymentFailArgs {
    /// Gives it up.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.deployment.id).await?;
        self.deployment.print_change(&id, "marked as failed", &remote.fail_deployment(&id).await?);
        Ok(())
    }
}

impl DeploymentPauseArgs {
    /// Holds it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.deployment.id).await?;
        self.deployment.print_change(&id, "paused", &remote.pause_deployment(&id, true).await?);
        Ok(())
    }
}

impl DeploymentResumeArgs {
    /// Lets it go on, as far as it may: canaries hold it up all the same.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.deployment.id).await?;
        self.deployment.print_change(&id, "resumed", &remote.pause_deployment(&id, false).await?);
        let deployment = remote.deployment(&id).await?;
        let mut groups = deployment.task_groups.values();
        if groups.any(|group| group.is_canarying() && !group.auto_promote) {
            let id = short_id(&id);
            output::eprint_line(&format!("it waits for its promotion; next: berth deployment promote {id}"));
        }
        Ok(())
    }
}

impl DeploymentUnblockArgs {
    /// Lets it go on.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.deployment.id).await?;
        self.deployment.print_change(&id, "unblocked", &remote.unblock_deployment(&id).await?);
        Ok(())
    }
}

impl DeploymentArg {
    fn print_change(&self, id: &str, action: &str, changed: &DeploymentChanged) {
        let back =
            changed.reverted_job_version.map(|version| format!(", back to version {version} of its job"));
        let id = output::id(id, self.verbose);
        output::eprint_line(&format!("deployment {id} is {action}{}", back.unwrap_or_default()));
    }
}

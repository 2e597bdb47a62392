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
struct Which {
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
pub struct Promote {
    #[command(flatten)]
    which: Which,
    /// Only this group; repeatable
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
}

/// Arguments of `deployment fail`.
#[derive(Debug, Args)]
pub struct Fail {
    #[command(flatten)]
    which: Which,
}

/// Arguments of `deployment pause`.
#[derive(Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    which: Which,
}

/// Arguments of `deployment resume`.
#[derive(Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    which: Which,
}

/// Arguments of `deployment unblock`.
#[derive(Debug, Args)]
pub struct Unblock {
    #[command(flatten)]
    which: Which,
}

impl Promote {
    /// Promotes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.which.id).await?;
        self.which.tell(&id, "promoted", &remote.promote(&id, &self.group).await?);
        Ok(())
    }
}

impl Fail {
    /// Gives it up.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.which.id).await?;
        self.which.tell(&id, "marked as failed", &remote.fail_deployment(&id).await?);
        Ok(())
    }
}

impl Pause {
    /// Holds it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.which.id).await?;
        self.which.tell(&id, "paused", &remote.pause_deployment(&id, true).await?);
        Ok(())
    }
}

impl Resume {
    /// Lets it go on, as far as it may: canaries hold it up all the same.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.which.id).await?;
        self.which.tell(&id, "resumed", &remote.pause_deployment(&id, false).await?);
        let deployment = remote.deployment(&id).await?;
        let mut groups = deployment.task_groups.values();
        if groups.any(|group| group.is_canarying() && !group.auto_promote) {
            let id = short_id(&id);
            output::tell(&format!("it waits for its promotion; next: berth deployment promote {id}"));
        }
        Ok(())
    }
}

impl Unblock {
    /// Lets it go on.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_deployment(&self.which.id).await?;
        self.which.tell(&id, "unblocked", &remote.unblock_deployment(&id).await?);
        Ok(())
    }
}

impl Which {
    fn tell(&self, id: &str, deed: &str, changed: &DeploymentChanged) {
        let back =
            changed.reverted_job_version.map(|version| format!(", back to version {version} of its job"));
        let id = output::id(id, self.verbose);
        output::tell(&format!("deployment {id} is {deed}{}", back.unwrap_or_default()));
    }
}

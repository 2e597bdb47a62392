//! `berth node eligibility`: opens a node to new work, or closes it. What runs there runs on.

use clap::Args;

use super::which::Which;
use crate::{
    failure::Failure,
    output::{self, short_id},
    remote::Remote,
};

/// Arguments of `node eligibility`.
#[derive(Debug, Args)]
pub struct Eligibility {
    #[command(flatten)]
    which: Which,
    /// Mark the node eligible for new allocations
    #[arg(long, required_unless_present = "disable")]
    enable: bool,
    /// Mark the node ineligible for new allocations
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
}

impl Eligibility {
    /// Runs the command.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = self.which.find(remote).await?;
        remote.set_eligibility(&id, self.enable).await?;
        let (state, next) = if self.enable { ("eligible", "-disable") } else { ("ineligible", "-enable") };
        output::tell(&format!("node {} is {state} for new work", short_id(&id)));
        output::tell(&format!("next: berth node eligibility {next} {} takes it back", short_id(&id)));
        Ok(())
    }
}

//! `berth node eligibility`: whether new allocations may be placed on a node. Running ones are not affected.

use clap::Args;

use super::node_arg::NodeArg;
use crate::{
    failure::Failure,
    output::{self, short_id},
    remote::Remote,
};

/// Arguments of `node eligibility`.
#[derive(Debug, Args)]
pub struct NodeEligibilityArgs {
    #[command(flatten)]
    node: NodeArg,
    /// Mark the node eligible for new allocations
    #[arg(long, required_unless_present = "disable")]
    enable: bool,
    /// Mark the node ineligible for new allocations
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
}

impl NodeEligibilityArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = self.node.find(remote).await?;
        remote.set_eligibility(&id, self.enable).await?;
        let (state, next) = if self.enable { ("eligible", "-disable") } else { ("ineligible", "-enable") };
        output::eprint_line(&format!("node {} is {state} for new work", short_id(&id)));
        output::eprint_line(&format!("next: berth node eligibility {next} {} undoes this", short_id(&id)));
        Ok(())
    }
}

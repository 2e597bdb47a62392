//! `berth node purge`: removes a node that is gone for good from the state.

use clap::Args;

use crate::{complete, confirm::ConfirmArgs, failure::Failure, output, remote::Remote};

/// Arguments of `node purge`.
#[derive(Debug, Args)]
pub struct NodePurgeArgs {
    /// Id, prefix or name of a node that is down
    #[arg(value_name = "NODE", add = complete::nodes())]
    id: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl NodePurgeArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_node(&self.id).await?;
        self.confirm.on_terminal("purge node", &id, &self.id)?;
        remote.purge_node(&id).await?;
        output::eprint_line(&format!("node {id} is purged"));
        Ok(())
    }
}

//! `berth node revoke`: revokes a node's certificates.

use clap::Args;

use crate::{complete, confirm::ConfirmArgs, failure::Failure, output, remote::Remote};

/// Arguments of `node revoke`.
#[derive(Debug, Args)]
pub struct NodeRevokeArgs {
    /// Id, prefix or name of the node; the full id of one that was purged
    #[arg(value_name = "NODE", add = complete::nodes())]
    id: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl NodeRevokeArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_node(&self.id).await?;
        self.confirm.always("revoke node", &id, &self.id)?;
        remote.revoke_node(&id).await?;
        output::eprint_line(&format!(
            "node {id} is revoked; its tasks keep running until they are replaced. To let it join again: berth node token -node {id}"
        ));
        Ok(())
    }
}

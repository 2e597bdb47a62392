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
        self.confirm.always("cast out node", &id, &self.id)?;
        remote.revoke_node(&id).await?;
        output::eprint_line(&format!(
            "node {id} is cast out, and its tasks run on until they are replaced; `berth node token -node {id}` lets it back in"
        ));
        Ok(())
    }
}

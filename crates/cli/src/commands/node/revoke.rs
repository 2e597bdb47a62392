//! `berth node revoke`: makes a node's certificates good for nothing.

use clap::Args;

use crate::{ask::Ask, complete, failure::Failure, output, remote::Remote};

/// Arguments of `node revoke`.
#[derive(Debug, Args)]
pub struct Revoke {
    /// Id, prefix or name of the node; the full id of one that was purged
    #[arg(value_name = "NODE", add = complete::nodes())]
    id: String,
    #[command(flatten)]
    ask: Ask,
}

impl Revoke {
    /// Revokes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_node(&self.id).await?;
        self.ask.always("cast out node", &id, &self.id)?;
        remote.revoke_node(&id).await?;
        output::tell(&format!(
            "node {id} is cast out, and its tasks run on until they are replaced; `berth node token -node {id}` lets it back in"
        ));
        Ok(())
    }
}

//! `berth node purge`: forgets a node that is gone for good.

use clap::Args;

use crate::{ask::Ask, complete, failure::Failure, output, remote::Remote};

/// Arguments of `node purge`.
#[derive(Debug, Args)]
pub struct Purge {
    /// Id, prefix or name of a node that is down
    #[arg(value_name = "NODE", add = complete::nodes())]
    id: String,
    #[command(flatten)]
    ask: Ask,
}

impl Purge {
    /// Forgets it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_node(&self.id).await?;
        self.ask.on_terminal("purge node", &id, &self.id)?;
        remote.purge_node(&id).await?;
        output::tell(&format!("node {id} is purged"));
        Ok(())
    }
}

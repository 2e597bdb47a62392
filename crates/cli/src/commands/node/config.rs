//! `berth node config`: where servers take agents.

use clap::Args;

use crate::{
    failure::Failure,
    output::{self, clean},
    remote::Remote,
};

/// Arguments of `node config`.
#[derive(Debug, Args)]
pub struct NodeConfigArgs {
    /// List the addresses on which servers listen for agents; agents learn them from the server they reach
    #[arg(long, required = true)]
    servers: bool,
}

impl NodeConfigArgs {
    /// Prints an address a line.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let addresses = remote.servers_of_agents().await?;
        let lines = addresses.iter().map(|address| format!("{}\n", clean(address)));
        Ok(output::print(&lines.collect::<String>())?)
    }
}

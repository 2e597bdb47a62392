//! `berth namespace delete`: takes an empty tenant away.

use clap::Args;

use crate::{ask::Ask, complete, failure::Failure, output, remote::Remote};

/// Arguments of `namespace delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// The namespace's name
    #[arg(value_name = "NAME", add = complete::namespaces())]
    name: String,
    #[command(flatten)]
    ask: Ask,
}

impl Delete {
    /// Deletes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.ask.on_terminal("delete namespace", &self.name, &self.name)?;
        remote.delete_namespace(&self.name).await?;
        output::tell(&format!("namespace {} is deleted", self.name));
        Ok(())
    }
}

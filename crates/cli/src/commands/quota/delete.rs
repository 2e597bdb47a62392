//! `berth quota delete`: takes away a quota that nobody keeps to.

use clap::Args;

use crate::{ask::Ask, failure::Failure, output, remote::Remote};

/// Arguments of `quota delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// The quota's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    ask: Ask,
}

impl Delete {
    /// Deletes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.ask.on_terminal("delete quota", &self.name, &self.name)?;
        remote.delete_quota(&self.name).await?;
        output::tell(&format!("quota {} is deleted", self.name));
        Ok(())
    }
}

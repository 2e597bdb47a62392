//! `berth quota delete`: deletes a quota that no namespace uses.

use clap::Args;

use crate::{confirm::ConfirmArgs, failure::Failure, output, remote::Remote};

/// Arguments of `quota delete`.
#[derive(Debug, Args)]
pub struct QuotaDeleteArgs {
    /// The quota's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl QuotaDeleteArgs {
    /// Deletes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.confirm.on_terminal("delete quota", &self.name, &self.name)?;
        remote.delete_quota(&self.name).await?;
        output::eprint_line(&format!("quota {} is deleted", self.name));
        Ok(())
    }
}

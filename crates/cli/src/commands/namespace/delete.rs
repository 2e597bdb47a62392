//! `berth namespace delete`: deletes an empty namespace.

use clap::Args;

use crate::{complete, confirm::ConfirmArgs, failure::Failure, output, remote::Remote};

/// Arguments of `namespace delete`.
#[derive(Debug, Args)]
pub struct NamespaceDeleteArgs {
    /// The namespace's name
    #[arg(value_name = "NAME", add = complete::namespaces())]
    name: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl NamespaceDeleteArgs {
    /// Deletes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.confirm.on_terminal("delete namespace", &self.name, &self.name)?;
        remote.delete_namespace(&self.name).await?;
        output::eprint_line(&format!("namespace {} is deleted", self.name));
        Ok(())
    }
}

//! `berth var purge`: deletes a variable.

use clap::Args;

use crate::{complete, failure::Failure, output, remote::Remote};

/// Arguments of `var purge`.
#[derive(Debug, Args)]
pub struct VarPurgeArgs {
    /// Its path
    #[arg(value_name = "PATH", add = complete::variables())]
    path: String,
    /// Only if it was last changed at this index
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
}

impl VarPurgeArgs {
    /// Deletes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        remote.delete_variable(&self.path, self.check_index).await?;
        output::eprint_line(&format!("variable {} is deleted", self.path));
        Ok(())
    }
}

//! Which items of a list are meant.

use clap::Args;

use crate::remote::Remote;

/// An expression that chooses items of a list.
#[derive(Debug, Clone, Args)]
pub struct Filter {
    /// Only what this expression holds for, as `Status == "running"`: of the fields that `-o json` prints
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
}

impl Filter {
    /// The server, whose lists have only such items.
    pub fn of(&self, remote: &Remote) -> Remote {
        remote.filtered(self.filter.as_deref())
    }
}

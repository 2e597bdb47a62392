//! `berth alloc stop`: ends an allocation, so that its job gets another one.

use clap::Args;

use crate::{
    complete,
    failure::Failure,
    output::{self, short_id},
    remote::Remote,
};

/// Arguments of `alloc stop`.
#[derive(Debug, Args)]
pub struct Stop {
    /// The allocation's id, or its beginning
    #[arg(value_name = "ALLOC", add = complete::allocations())]
    id: String,
}

impl Stop {
    /// Asks for it, and prints the evaluation's id.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_allocation(&self.id).await?;
        let stopped = remote.stop_allocation(&id).await?;
        output::tell(&format!("allocation {} is told to stop, evaluation:", short_id(&id)));
        Ok(output::print(&format!("{}\n", stopped.eval_id))?)
    }
}

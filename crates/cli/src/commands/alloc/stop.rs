//! `berth alloc stop`: stops an allocation, which the scheduler replaces.

use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};

use crate::{
    complete,
    failure::{Exit, Failure},
    output::{self, clean, short_id},
    remote::Remote,
};

/// By then the replacement is decided, unless the servers are busy.
const DECIDED_WITHIN: Duration = Duration::from_secs(10);
/// Between two polls.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Arguments of `alloc stop`.
#[derive(Debug, Args)]
pub struct AllocStopArgs {
    /// Id or prefix of the allocation
    #[arg(value_name = "ALLOC", add = complete::allocations())]
    id: String,

    /// Do not wait until its replacement is planned
    #[arg(long)]
    detach: bool,
    /// Print full ids
    #[arg(long)]
    verbose: bool,
}

impl AllocStopArgs {
    /// Stops it, prints the evaluation's id, and the replacement.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_allocation(&self.id).await?;
        let stopped = remote.stop_allocation(&id).await?;
        output::eprint_line(&format!(
            "allocation {} is stopping, evaluation:",
            output::id(&id, self.verbose)
        ));
        output::print(&format!("{}\n", stopped.eval_id))?;
        if self.detach {
            return Ok(());
        }
        if let Some(decided) = decided(remote, &id, &stopped.eval_id).await? {
            output::eprint_line(&decided);
        }
        Ok(())
    }
}

/// The replacement of an allocation that is stopped, or why there is none yet. None when that is unknown.
async fn decided(remote: &Remote, id: &str, eval: &str) -> Result<Option<String>, Failure> {
    let until = Instant::now() + DECIDED_WITHIN;
    let eval = loop {
        match remote.evaluation(eval).await {
            Ok(eval) if eval.status != "pending" => break eval,
            Ok(_) if Instant::now() < until => sleep(LOOKS_EVERY).await,
            Ok(_) => {
                let why = "it is not decided yet what takes its place";
                return Ok(Some(format!("{why}: see `berth eval status {}`", short_id(eval))));
            }
            // It was garbage-collected already.
            Err(failure) if failure.exit() == Exit::NotFound => return Ok(None),
            Err(failure) => return Err(failure),
        }
    };
    let next = remote.allocation(id).await?.next_allocation;
    if !next.is_empty() {
        let node = remote.allocation(&next).await.map(|next| clean(&next.node_name).to_string());
        let node = node.map_or_else(|_| String::new(), |node| format!(" on {node}"));
        return Ok(Some(format!("allocation {}{node} takes its place", short_id(&next))));
    }
    Ok(Some(if eval.blocked_eval.is_empty() {
        "nothing takes its place: the job asks for no more".to_owned()
    } else {
        let waits = short_id(&eval.blocked_eval);
        format!("its replacement waits for resources: see `berth eval status {waits}`")
    }))
}

//! `berth alloc signal`: sends a signal to tasks.

use clap::Args;

use super::task_arg::TaskArg;
use crate::{
    complete,
    failure::Failure,
    output::{self, clean},
    remote::Remote,
};

/// Arguments of `alloc signal`.
#[derive(Debug, Args)]
pub struct AllocSignalArgs {
    /// Id or prefix of the allocation
    #[arg(value_name = "ALLOC", add = complete::allocations())]
    id: String,
    #[command(flatten)]
    task: TaskArg,
    /// Signal, e.g. SIGHUP
    #[arg(short = 's', value_name = "SIGNAL", default_value = "SIGKILL")]
    signal: String,
    /// Print full ids
    #[arg(long)]
    verbose: bool,
}

impl AllocSignalArgs {
    /// Sends it to the task that is named, or to all that run.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_allocation(&self.id).await?;
        let task = self.task.task().unwrap_or_default();
        remote.signal_tasks(&id, task, &self.signal).await?;
        let what = if task.is_empty() { "the tasks".to_owned() } else { format!("task {}", clean(task)) };
        let message = format!(
            "{what} of allocation {} got signal {}",
            output::id(&id, self.verbose),
            clean(&self.signal)
        );
        output::eprint_line(&message);
        Ok(())
    }
}

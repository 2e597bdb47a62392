//! `berth alloc restart`: restarts tasks in place.

use clap::Args;

use super::task_arg::TaskArg;
use crate::{
    complete,
    failure::{Exit, Failure},
    output::{self, clean},
    remote::Remote,
};

/// Arguments of `alloc restart`.
#[derive(Debug, Args)]
pub struct AllocRestartArgs {
    /// Id or prefix of the allocation
    #[arg(value_name = "ALLOC", add = complete::allocations())]
    id: String,
    #[command(flatten)]
    task: TaskArg,
    /// Restart tasks that completed as well
    #[arg(long)]
    all_tasks: bool,
    /// Print full ids
    #[arg(long)]
    verbose: bool,
}

impl AllocRestartArgs {
    /// Asks for it; the restart policy does not count it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let task = self.task.task().unwrap_or_default();
        if self.all_tasks && !task.is_empty() {
            let text = "-all-tasks restarts every task: leave it or the task's name out";
            return Err(Failure::new(Exit::Usage, text));
        }
        let id = remote.find_allocation(&self.id).await?;
        remote.restart_tasks(&id, task, self.all_tasks).await?;
        let what = if task.is_empty() { "its tasks".to_owned() } else { format!("task {}", clean(task)) };
        let id = output::id(&id, self.verbose);
        output::eprint_line(&format!("allocation {id} restarts {what}"));
        output::eprint_line(&format!("next: berth alloc status {id}"));
        Ok(())
    }
}

//! The argument that names a task of an allocation: positional, as Nomad's commands take it, or by a flag.

use clap::Args;

/// The task's name, if there is one.
#[derive(Debug, Args)]
pub struct TaskArg {
    /// The task
    #[arg(value_name = "TASK", conflicts_with = "named")]
    task: Option<String>,
    /// Task, as an option
    #[arg(id = "named", long = "task", value_name = "TASK")]
    named: Option<String>,
}

impl TaskArg {
    /// The name that was given.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref().or(self.named.as_deref())
    }
}

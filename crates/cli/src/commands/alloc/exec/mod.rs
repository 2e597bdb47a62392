//! `berth alloc exec` and `berth exec`: a command within a task, as if it ran here.

mod escape;
mod session;

use std::io::{self, IsTerminal};

use clap::Args;

use super::OfJobArgs;
use crate::{
    complete,
    failure::{Exit, Failure},
    raw_mode::RawMode,
    remote::{ExecRequest, Remote, only_task},
};
use escape::EscapeChar;

/// Arguments of `alloc exec`.
#[derive(Debug, Args)]
pub struct AllocExecArgs {
    #[command(flatten)]
    options: ExecOptions,
    #[command(flatten)]
    of_job: OfJobArgs,
    /// Id or prefix of the allocation
    #[arg(value_name = "ALLOC", add = complete::allocations())]
    id: String,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl AllocExecArgs {
    /// Runs it, and ends as it ends.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let alloc = self.of_job.find(remote, &self.id).await?;
        self.options.exec(remote, &alloc, &self.command).await
    }
}

/// How a command is run.
#[derive(Debug, Args)]
pub struct ExecOptions {
    /// Task; optional if there is only one
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Pass standard input to the command; by default if it is a terminal
    #[arg(short, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    interactive: Option<bool>,
    /// Allocate a terminal; by default if standard input and output are one
    #[arg(short, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    tty: Option<bool>,
    /// Escape character: after a newline, it and a full stop disconnect; `none` to disable it
    #[arg(short, value_name = "CHAR", default_value = "~")]
    escape: EscapeChar,
}

impl ExecOptions {
    /// Runs a command within the allocation with this whole id, and ends as it ends.
    pub async fn exec(&self, remote: &Remote, alloc: &str, command: &[String]) -> Result<(), Failure> {
        let typed = io::stdin().is_terminal();
        let interactive = self.interactive.unwrap_or(typed);
        let tty = self.tty.unwrap_or(interactive && typed && io::stdout().is_terminal());
        let tasks = remote.allocation(alloc).await?.task_resources;
        let tasks: Vec<_> = tasks.keys().map(String::as_str).collect();
        let task = only_task(&tasks, self.task.as_deref())?;
        let (sender, receiver) = remote.exec(&ExecRequest { alloc, task, command, tty }).await?;
        // From here on until the command ends keys go to it, not to this process.
        let raw = (tty && interactive && typed).then(RawMode::enter).transpose()?;
        let escape = self.escape.filter(|_| raw.is_some());
        let ended =
            session::carry(sender, receiver, &session::LocalTerminal { interactive, tty, escape }).await;
        drop(raw);
        match ended? {
            0 => Ok(()),
            code => Err(Failure::silent(Exit::Task(u8::try_from(code).unwrap_or(u8::MAX)))),
        }
    }
}

//! `berth alloc`: allocations, their tasks, logs and files.

mod checks;
mod exec;
mod fs;
mod logs;
mod of_job;
mod ports;
mod restart;
mod signal;
mod stats;
pub mod status;
mod stop;
pub mod tail;
mod task_arg;
mod task_exits;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

pub use exec::ExecOptions;
pub use logs::{LogOptions, print};
pub use of_job::OfJobArgs;
pub use ports::ports;
pub use stats::usage_cells;
pub use task_exits::{TaskExits, is_live, last_exit};

/// What can be done with allocations.
#[derive(Debug, Subcommand)]
pub enum AllocCommand {
    /// Show an allocation: its tasks, and what happened to them
    Status(status::AllocStatusArgs),
    /// Print what a task wrote
    Logs(logs::AllocLogsArgs),
    /// Look at its files: list a directory, print a file
    Fs(fs::AllocFsArgs),
    /// Show the results of the checks of its services
    Checks(checks::AllocChecksArgs),
    /// Run a command within a task
    Exec(exec::AllocExecArgs),
    /// Stop an allocation; its job gets another one in its place
    Stop(stop::AllocStopArgs),
    /// Restart tasks where they are; their restart policy does not count it
    Restart(restart::AllocRestartArgs),
    /// Send a signal to tasks
    Signal(signal::AllocSignalArgs),
    /// Show what the tasks use right now
    Stats(stats::AllocStatsArgs),
}

impl AllocCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::Status(status) => block_on(status.run(&remote)),
            Self::Logs(logs) => block_on(logs.run(&remote)),
            Self::Fs(fs) => block_on(fs.run(&remote)),
            Self::Checks(checks) => block_on(checks.run(&remote)),
            Self::Exec(exec) => block_on(exec.run(&remote)),
            Self::Stop(stop) => block_on(stop.run(&remote)),
            Self::Restart(restart) => block_on(restart.run(&remote)),
            Self::Signal(signal) => block_on(signal.run(&remote)),
            Self::Stats(stats) => block_on(stats.run(&remote)),
        }
    }
}

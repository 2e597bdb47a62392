//! `berth alloc`: single allocations of a job, and their logs.

mod checks;
mod ends;
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
mod which;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

pub use ends::{Ends, is_live, last_exit};
pub use exec::ExecOptions;
pub use logs::{LogOptions, print};
pub use of_job::OfJob;
pub use ports::ports;
pub use stats::usage_cells;

/// What can be done with allocations.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show an allocation: its tasks, and what happened to them
    Status(status::Status),
    /// Print what a task wrote
    Logs(logs::Logs),
    /// Look at its files: list a directory, print a file
    Fs(fs::Fs),
    /// Show the results of the checks of its services
    Checks(checks::Checks),
    /// Run a command within a task
    Exec(exec::Exec),
    /// Stop an allocation; its job gets another one in its place
    Stop(stop::Stop),
    /// Restart tasks where they are; their restart policy does not count it
    Restart(restart::Restart),
    /// Send a signal to tasks
    Signal(signal::Signal),
    /// Show what the tasks use right now
    Stats(stats::Stats),
}

impl Verb {
    /// Runs the command.
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

//! `berth alloc`: single allocations of a job, and their logs.

mod logs;
mod restart;
mod signal;
mod status;
mod stop;
mod tail;
mod which;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

pub use logs::{LogOptions, print};

/// What can be done with allocations.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show an allocation: its tasks, and what happened to them
    Status(status::Status),
    /// Print what a task wrote
    Logs(logs::Logs),
    /// Stop an allocation; its job gets another one in its place
    Stop(stop::Stop),
    /// Restart tasks where they are; their restart policy does not count it
    Restart(restart::Restart),
    /// Send a signal to tasks
    Signal(signal::Signal),
}

impl Verb {
    /// Does it.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::Status(status) => block_on(status.run(&remote)),
            Self::Logs(logs) => block_on(logs.run(&remote)),
            Self::Stop(stop) => block_on(stop.run(&remote)),
            Self::Restart(restart) => block_on(restart.run(&remote)),
            Self::Signal(signal) => block_on(signal.run(&remote)),
        }
    }
}

//! `berth event`: the stream of cluster events.

mod stream;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with events.
#[derive(Debug, Subcommand)]
pub enum EventCommand {
    /// Follow what happens
    Stream(stream::EventStreamArgs),
}

impl EventCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Stream(stream) => block_on(stream.run(&global.remote()?)),
        }
    }
}

//! `berth server`: runs a server, or looks at those that run.

mod members;
mod start;

use clap::{Args, Subcommand};

use crate::{failure::Failure, global::Global, remote::block_on, settings::ServerArgs};

pub(super) use start::{broken, start};

/// A server to run, or what to do with servers that run.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Command {
    #[command(flatten)]
    settings: ServerArgs,
    /// End when standard input does: the process that holds its other end is gone
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// What can be done with servers.
#[derive(Debug, Subcommand)]
enum Verb {
    /// List the servers
    Members(members::Members),
}

impl Command {
    /// Does it.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match &self.verb {
            Some(Verb::Members(members)) => block_on(members.run(&global.remote()?)),
            None => {
                global.refuse()?;
                start::run(&self.settings.load()?, self.until_stdin_closes)
            }
        }
    }
}

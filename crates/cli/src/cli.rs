//! The command line: nouns, and the verbs that go with them.

use clap::{Parser, Subcommand};

use crate::{
    commands::{agent, alloc, dev, job, lab, node, server, version},
    failure::Failure,
    global::Global,
    settings::{AgentArgs, DevArgs, ServerArgs},
};

/// Runs jobs of processes and containers, on one machine or on many.
///
/// Long flags may be written with one dash: `-detach` is `--detach`.
#[derive(Debug, Parser)]
#[command(name = "berth", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Debug, Subcommand)]
enum Noun {
    /// Run a server and an agent in one process, for trying things out
    Dev(DevArgs),
    /// Run a server
    Server(ServerArgs),
    /// Run an agent: it makes this machine a node
    Agent(AgentArgs),
    /// Run, watch and stop jobs
    #[command(subcommand)]
    Job(job::Verb),
    /// Look at single allocations of a job, and read their logs
    #[command(subcommand)]
    Alloc(alloc::Verb),
    /// Look at the machines
    #[command(subcommand)]
    Node(node::Verb),
    /// Simulate nodes
    #[command(subcommand)]
    Lab(lab::Verb),
    /// Print the version
    Version,
}

impl Cli {
    /// Does what the command line asks for.
    pub fn run(self) -> Result<(), Failure> {
        if matches!(self.noun, Noun::Dev(_) | Noun::Server(_) | Noun::Agent(_)) {
            self.global.refuse()?;
        }
        match self.noun {
            Noun::Dev(args) => dev::run(&args.load()?),
            Noun::Server(args) => server::run(&args.load()?),
            Noun::Agent(args) => agent::run(&args.load()?),
            Noun::Job(verb) => verb.run(&self.global),
            Noun::Alloc(verb) => verb.run(&self.global),
            Noun::Node(verb) => verb.run(&self.global),
            Noun::Lab(verb) => verb.run(),
            Noun::Version => version::run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}

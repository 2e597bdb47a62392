//! `berth lab`: simulated nodes.

mod nodes;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Simulate nodes: the agent's own life cycle, with tasks that only pretend to run
    Nodes(nodes::Args),
}

impl Verb {
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Nodes(args) => args.run(),
        }
    }
}

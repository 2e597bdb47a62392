//! `berth lab`: experiments, and the simulated nodes that they use.

mod nodes;
mod report;
mod run;

use clap::Subcommand;

use crate::{failure::Failure, global::Global};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Simulate nodes: the agent's own life cycle, with tasks that only pretend to run
    Nodes(Box<nodes::Args>),
    /// Run an experiment: start a server and nodes, put a load on them, and measure
    Run(run::Run),
    /// Draw the report of a run again
    Report(report::Args),
}

impl Verb {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Nodes(args) => args.run(),
            Self::Run(run) => run.run(global),
            Self::Report(args) => args.run(),
        }
    }
}

//! `berth lab`: experiments, and the simulated nodes that they use.

mod audit;
mod nodes;
mod report;
mod run;

use berth_api::http::Address;
use berth_lab::run::Target;
use clap::Subcommand;

use crate::{
    failure::{Exit, Failure},
    global::Global,
};

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Simulate nodes: the agent's own life cycle, with tasks that only pretend to run
    Nodes(Box<nodes::LabNodesArgs>),
    /// Run an experiment: start a server and nodes, put a load on them, and measure
    Run(run::LabRunArgs),
    /// Draw the report of a run again
    Report(report::LabReportArgs),
    /// Check a cluster by what its API shows: each allocation is where its job allows it, and nothing is given twice
    Audit(audit::LabAuditArgs),
}

impl LabCommand {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Nodes(args) => args.run(),
            Self::Run(run) => run.run(global),
            Self::Report(args) => args.run(),
            Self::Audit(args) => args.run(global),
        }
    }
}

/// A server that is there already.
fn target(url: &str, token: String, global: &Global) -> Result<Target, Failure> {
    let address: Address =
        url.parse().map_err(|error| Failure::new(Exit::Usage, format!("--target: {error}")))?;
    let tls = address.is_encrypted().then(|| global.certificates()?.tls()).transpose()?;
    Ok(Target { address, token, tls })
}

//! `berth node`: nodes, the machines that run tasks.

mod config;
mod detail;
mod drain;
mod eligibility;
mod meta;
mod node_arg;
mod pool;
mod purge;
mod revoke;
mod stats;
pub mod status;
mod token;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes, or show one in detail
    Status(status::NodeStatusArgs),
    /// Show what the machine uses right now
    Stats(stats::NodeStatsArgs),
    /// Make a node eligible for new work, or ineligible
    Eligibility(eligibility::NodeEligibilityArgs),
    /// Drain a node, or cancel its drain
    Drain(drain::NodeDrainArgs),
    /// Delete a node that is down
    Purge(purge::NodePurgeArgs),
    /// Let an agent join: makes a token for one, once
    Token(token::NodeTokenArgs),
    /// Revoke a node: its certificates are refused, and its connection ends within a second
    Revoke(revoke::NodeRevokeArgs),
    /// List where servers take agents
    Config(config::NodeConfigArgs),
    /// Show a node's metadata, which constraints see, or change it
    #[command(subcommand)]
    Meta(meta::NodeMetaCommand),
    /// Describe the groups of nodes that jobs choose between
    #[command(subcommand)]
    Pool(pool::NodePoolCommand),
}

impl NodeCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::Status(status) => block_on(status.run(&remote)),
            Self::Stats(stats) => block_on(stats.run(&remote)),
            Self::Eligibility(eligibility) => block_on(eligibility.run(&remote)),
            Self::Drain(drain) => block_on(drain.run(&remote)),
            Self::Purge(purge) => block_on(purge.run(&remote)),
            Self::Token(token) => block_on(token.run(&remote)),
            Self::Revoke(revoke) => block_on(revoke.run(&remote)),
            Self::Config(config) => block_on(config.run(&remote)),
            Self::Meta(verb) => block_on(verb.run(&remote)),
            Self::Pool(verb) => block_on(verb.run(&remote)),
        }
    }
}

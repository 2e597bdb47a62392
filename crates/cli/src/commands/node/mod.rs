//! `berth node`: the machines.

mod config;
mod detail;
mod drain;
mod eligibility;
mod meta;
mod pool;
mod purge;
mod revoke;
mod stats;
pub mod status;
mod token;
mod which;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List the nodes, or show one in detail
    Status(status::Status),
    /// Show what the machine uses right now
    Stats(stats::Stats),
    /// Make a node eligible for new work, or ineligible
    Eligibility(eligibility::Eligibility),
    /// Drain a node, or cancel its drain
    Drain(drain::Drain),
    /// Delete a node that is down
    Purge(purge::Purge),
    /// Let an agent join: makes a token for one, once
    Token(token::Token),
    /// Revoke a node: its certificates are refused, and its connection ends within a second
    Revoke(revoke::Revoke),
    /// List where servers take agents
    Config(config::Config),
    /// Show a node's metadata, which constraints see, or change it
    #[command(subcommand)]
    Meta(meta::Verb),
    /// Describe the groups of nodes that jobs choose between
    #[command(subcommand)]
    Pool(pool::Verb),
}

impl Verb {
    /// Runs the command.
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

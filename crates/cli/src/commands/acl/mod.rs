//! `berth acl`: who may do what.

mod bootstrap;
mod policy;
mod role;
mod token;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done about who may do what.
#[derive(Debug, Subcommand)]
pub enum AclCommand {
    /// Get the first token: it may do everything, and is shown once
    Bootstrap(bootstrap::AclBootstrapArgs),
    /// Policies: what those may do who have them
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Roles: policies under one name
    #[command(subcommand)]
    Role(role::RoleCommand),
    /// Tokens: what callers show
    #[command(subcommand)]
    Token(token::TokenCommand),
}

impl AclCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::Bootstrap(bootstrap) => block_on(bootstrap.run(&remote)),
            Self::Policy(verb) => block_on(verb.run(&remote)),
            Self::Role(verb) => block_on(verb.run(&remote)),
            Self::Token(verb) => block_on(verb.run(&remote)),
        }
    }
}

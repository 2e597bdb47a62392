//! A server of a cluster that was started here: how to reach it, and how to start it again.

use std::time::Instant;

use super::{ChildProcess, Target, server::ServerSetup};
use crate::run::RunError;

/// One of the servers.
#[derive(Debug, Clone)]
pub(in crate::run) struct Member {
    /// The name of its process.
    pub name: String,
    pub(super) setup: ServerSetup,
    /// Where clients reach it.
    pub target: Target,
    /// Where it takes agents, as `HOST:PORT`.
    pub agents: String,
}

impl Member {
    /// Starts it on the addresses and the data that it had; returns when that was, and waits for nothing.
    pub(super) fn start_again(&self) -> Result<(ChildProcess, Instant), RunError> {
        let started = Instant::now();
        let mut child =
            self.setup.start_again(&format!("{} again", self.name), &self.target.address, &self.agents)?;
        child.name.clone_from(&self.name);
        Ok((child, started))
    }
}

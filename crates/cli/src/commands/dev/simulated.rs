//! Simulated nodes beside `berth dev`: a child process that ends when this one does, however it ends.

use std::{net::SocketAddr, process::Stdio};

use tokio::process::{Child, ChildStdin, Command};

use crate::failure::{Exit, Failure};

/// The child process, if there is one.
pub(super) struct SimulatedNodes {
    child: Option<(Child, Option<ChildStdin>)>,
}

impl SimulatedNodes {
    /// Starts so many nodes; none when that is 0.
    pub fn start(count: u32, agents: SocketAddr) -> Result<Self, Failure> {
        if count == 0 {
            return Ok(Self { child: None });
        }
        let mut child = Command::new(std::env::current_exe()?)
            .args(["lab", "nodes", "--until-stdin-closes"])
            .args(["--count", &count.to_string(), "--server", &agents.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        // The child reads this pipe and ends with it: the kernel closes our end even if we are killed.
        let lifeline = child.stdin.take();
        Ok(Self { child: Some((child, lifeline)) })
    }

    /// Completes when the child has ended unexpectedly.
    pub async fn ended(&mut self) -> Failure {
        let Some((child, _)) = &mut self.child else { return std::future::pending().await };
        match child.wait().await {
            Ok(status) => Failure::new(Exit::Failed, format!("the simulated nodes stopped: {status}")),
            Err(error) => Failure::new(Exit::Failed, format!("the simulated nodes are lost: {error}")),
        }
    }

    /// Ends the child.
    pub async fn stop(&mut self) {
        if let Some((child, lifeline)) = &mut self.child {
            drop(lifeline.take());
            let _ = child.wait().await;
        }
    }
}

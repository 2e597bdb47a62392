//! One round: all agents open their sessions at once.

use std::time::{Duration, Instant};

use crate::{
    nodes::SimulatedNodes,
    run::{
        RunError,
        cluster::{Cluster, usage},
    },
};

/// The pause between two polls.
const POLL_EVERY: Duration = Duration::from_millis(2);
/// How long a round may take.
const OPEN_MAX: Duration = Duration::from_secs(180);

/// A round that is under way.
pub(super) struct ConnectRound {
    /// Sessions that were opened before.
    opened: u64,
    started_at: Instant,
    server_cpu_s: f64,
    own_cpu_s: f64,
}

/// What a round took.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTimes {
    /// Seconds until all sessions were open.
    pub seconds: f64,
    /// The server's processor time.
    pub server_cpu_s: f64,
    /// The processor time of all agents.
    pub agents_cpu_s: f64,
}

impl ConnectRound {
    /// From then on, with so many sessions that were opened before.
    pub fn begin(opened: u64, started_at: Instant, cluster: &Cluster) -> Self {
        Self { opened, started_at, server_cpu_s: server_cpu_s(cluster), own_cpu_s: cpu_s(std::process::id()) }
    }

    /// Waits until each agent has opened its session once more, and all are open.
    pub async fn until_all_are_open(
        self,
        simulated: &SimulatedNodes,
        agents: u32,
        cluster: &mut Cluster,
    ) -> Result<RoundTimes, RunError> {
        let shared_connections = simulated.shared_connections();
        while shared_connections.opened() < self.opened + u64::from(agents)
            || shared_connections.are_open() < agents
        {
            cluster.check()?;
            if self.started_at.elapsed() > OPEN_MAX {
                let open = shared_connections.are_open();
                let message = format!("{open} of {agents} agents have a session after {OPEN_MAX:?}");
                return Err(RunError::Incomplete(message));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        Ok(RoundTimes {
            seconds: self.started_at.elapsed().as_secs_f64(),
            server_cpu_s: server_cpu_s(cluster) - self.server_cpu_s,
            agents_cpu_s: cpu_s(std::process::id()) - self.own_cpu_s,
        })
    }
}

fn server_cpu_s(cluster: &Cluster) -> f64 {
    cluster.children.first().map_or(0.0, |server| cpu_s(server.pid()))
}

fn cpu_s(pid: u32) -> f64 {
    usage(pid).map_or(0.0, |used| used.cpu_s)
}

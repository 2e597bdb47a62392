//! Limits of agents' connections and sessions; the rates of their requests are in [`super::rates`].

use crate::net::AddressLimit;

/// Bounds of the port for agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLimits {
    /// Connections at the same time; each can carry many sessions. As many again may wait to come in.
    pub connections_max: usize,
    /// Connections of one address at the same time, and as many again that wait: a host with simulated nodes, or a network behind one
    /// address, has many.
    pub connections_share: AddressLimit,
    /// Connections, and sessions, that one address may begin a second, on average; 0 for any number. Twice as many may begin
    /// at once after a pause. Programs of this machine may begin any number.
    pub begun_a_second: u32,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_share: Self::share(16_384),
            // So that 10,000 agents behind one address are there within seconds, also after their server was away.
            begun_a_second: 2_000,
        }
    }
}

impl AgentLimits {
    /// How many of so many connections one address may have by default: three quarters, so that some are left for others.
    pub fn share(connections_max: usize) -> AddressLimit {
        AddressLimit::equal((connections_max - connections_max / 4).max(1))
    }
}

//! What agents may cost, in connections and sessions; what they may ask on them is [`super::asked`]'s.

use crate::net::Share;

/// Bounds of the port for agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLimits {
    /// Connections at the same time; each can carry many sessions. As many again may wait to come in.
    pub connections_max: usize,
    /// Connections of one address at the same time, and those of it that wait: a host with simulated nodes, or a network behind one address, has many.
    pub connections_share: Share,
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
    /// How many of so many connections one address may have unless it is said: three quarters, so that there is room for others.
    pub fn share(connections_max: usize) -> Share {
        Share::equal((connections_max - connections_max / 4).max(1))
    }
}

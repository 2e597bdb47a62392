//! Rate limits of expensive requests of agents: by the session's node, and by address before there is a certificate.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Instant,
};

use berth_model::NodeId;

use crate::{
    net::{RateExceeded, Rates, host},
    workload::{READ_A_SECOND_MAX, SIGNED_A_SECOND_MAX},
};

/// Certificates that one address may request a second on average, twice as many at once.
pub(super) const CERTIFICATES_A_SECOND_MAX: u32 = 100;

/// Rate limits of agents' expensive requests.
#[derive(Debug)]
pub(crate) struct AgentRates {
    started_at: Instant,
    tokens: Rates<NodeId>,
    secrets: Rates<NodeId>,
    watches: Rates<NodeId>,
    certificates: Rates<IpAddr>,
    connections: Rates<IpAddr>,
    sessions: Rates<IpAddr>,
}

impl Default for AgentRates {
    fn default() -> Self {
        Self {
            started_at: Instant::now(),
            tokens: Rates::default(),
            secrets: Rates::default(),
            watches: Rates::default(),
            certificates: Rates::default(),
            connections: Rates::default(),
            sessions: Rates::default(),
        }
    }
}

impl AgentRates {
    /// Counts a request for tokens of a node's tasks.
    ///
    /// # Errors
    /// When there were too many.
    pub fn for_tokens(&self, node: NodeId) -> Result<(), RateExceeded> {
        self.tokens.take(node, SIGNED_A_SECOND_MAX, self.started_at.elapsed())
    }

    /// Counts a request for secrets of a node's tasks.
    ///
    /// # Errors
    /// When there were too many.
    pub fn for_secrets(&self, node: NodeId) -> Result<(), RateExceeded> {
        self.secrets.take(node, READ_A_SECOND_MAX, self.started_at.elapsed())
    }

    /// Counts a request for what templates of a node's tasks show.
    ///
    /// # Errors
    /// When there were too many.
    pub fn for_watches(&self, node: NodeId) -> Result<(), RateExceeded> {
        self.watches.take(node, READ_A_SECOND_MAX, self.started_at.elapsed())
    }

    /// Counts a request for a certificate of an address.
    ///
    /// # Errors
    /// When there were too many.
    pub fn for_a_certificate(&self, address: IpAddr) -> Result<(), RateExceeded> {
        self.certificates.take(host(address), CERTIFICATES_A_SECOND_MAX, self.started_at.elapsed())
    }

    /// Counts a connection that an address begins, of so many a second; programs of this machine begin any number.
    ///
    /// # Errors
    /// When there were too many.
    pub fn for_a_connection(&self, address: IpAddr, per_second: u32) -> Result<(), RateExceeded> {
        begin(&self.connections, address, per_second, self.started_at)
    }

    /// Counts a session that an address begins, as [`Self::for_a_connection`].
    ///
    /// # Errors
    /// When there were too many.
    pub fn for_a_session(&self, address: IpAddr, per_second: u32) -> Result<(), RateExceeded> {
        begin(&self.sessions, address, per_second, self.started_at)
    }
}

fn begin(
    rates: &Rates<IpAddr>,
    address: IpAddr,
    per_second: u32,
    started_at: Instant,
) -> Result<(), RateExceeded> {
    let address = host(address);
    if address == Ipv4Addr::LOCALHOST {
        return Ok(());
    }
    rates.take(address, per_second, started_at.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_share_of_requests_for_secrets_and_of_those_for_tokens() {
        let rates = AgentRates::default();
        let count = |take: &dyn Fn() -> bool| (0..1_000).take_while(|_| take()).count();
        let secrets = count(&|| rates.for_secrets(NodeId(1)).is_ok());
        let tokens = count(&|| rates.for_tokens(NodeId(1)).is_ok());
        assert!((200..1_000).contains(&secrets) && (200..1_000).contains(&tokens), "{secrets} {tokens}");
        assert!(rates.for_secrets(NodeId(2)).is_ok(), "another has its own");
    }
}

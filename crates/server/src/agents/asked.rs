//! How often agents may ask for what costs work: by the node that a session speaks for, and by the address that has no certificate
//! yet.

use std::{net::IpAddr, time::Instant};

use berth_model::NodeId;

use crate::{
    net::{Rates, TooOften, host},
    workload::SIGNED_A_SECOND_MAX,
};

/// Certificates that one address may ask for a second on average, twice as many at once.
pub(super) const CERTIFICATES_A_SECOND_MAX: u32 = 100;

/// What agents have asked lately.
#[derive(Debug)]
pub(crate) struct Asked {
    begun: Instant,
    tokens: Rates<NodeId>,
    certificates: Rates<IpAddr>,
}

impl Default for Asked {
    fn default() -> Self {
        Self { begun: Instant::now(), tokens: Rates::default(), certificates: Rates::default() }
    }
}

impl Asked {
    /// Counts a request for tokens of a node's tasks.
    ///
    /// # Errors
    /// When there were too many.
    pub fn for_tokens(&self, node: NodeId) -> Result<(), TooOften> {
        self.tokens.take(node, SIGNED_A_SECOND_MAX, self.begun.elapsed())
    }

    /// Counts a request for a certificate of an address.
    ///
    /// # Errors
    /// When there were too many.
    pub fn for_a_certificate(&self, address: IpAddr) -> Result<(), TooOften> {
        self.certificates.take(host(address), CERTIFICATES_A_SECOND_MAX, self.begun.elapsed())
    }
}

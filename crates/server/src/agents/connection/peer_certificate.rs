//! The certificate that the agent of a connection has shown. The connection is closed when it expires, unless the agent shows a
//! renewed one.

use berth_api::agent::{RENEWED_CHAIN_MAX, Renewed};
use berth_model::NodeId;
use berth_tls::{CertificateDer, Peer};
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

use crate::net::{Secure, until_expired};

/// At most one renewal is checked in this time: each is a signature to verify.
const RENEWED_EVERY: Duration = Duration::from_secs(1);

/// The certificate that was shown last; none without encryption.
pub(super) struct PeerCertificate {
    peer: watch::Sender<Option<Peer>>,
    next_check_at: Instant,
}

impl PeerCertificate {
    pub fn new(peer: Option<Peer>) -> Self {
        Self { peer: watch::Sender::new(peer), next_check_at: Instant::now() }
    }

    /// The certificate that counts now.
    pub fn peer(&self) -> Option<Peer> {
        self.peer.borrow().clone()
    }

    /// The certificate, now and as it changes.
    pub fn follow(&self) -> watch::Receiver<Option<Peer>> {
        self.peer.subscribe()
    }

    /// The agent shows another certificate for these nodes. It must be for the same key: the handshake proved that the agent has that
    /// one, and nothing in this message proves that it has another.
    ///
    /// # Errors
    /// Why it does not count, in words: the one before does, for as long as it is valid.
    pub fn on_renewed(
        &mut self,
        renewed: &Renewed,
        nodes: impl IntoIterator<Item = NodeId>,
        secure: &Secure,
    ) -> Result<(), String> {
        let Some(before) = self.peer() else { return Err("the connection began without one".to_owned()) };
        let now = Instant::now();
        if now < self.next_check_at {
            return Err("one was shown a moment ago".to_owned());
        }
        self.next_check_at = now + RENEWED_EVERY;
        if renewed.chain.len() > RENEWED_CHAIN_MAX {
            return Err(format!("{} certificates are more than {RENEWED_CHAIN_MAX}", renewed.chain.len()));
        }
        let chain: Vec<CertificateDer<'_>> = renewed.chain.iter().map(|der| der.as_slice().into()).collect();
        let peer = secure.judge_agent(&chain)?;
        if peer.key != before.key {
            return Err("it is of another key than the one that the connection began with".to_owned());
        }
        if let Some(node) = nodes.into_iter().find(|node| !peer.identity.speaks_for(&node.to_string())) {
            return Err(format!("it names {}, and does not speak for node {node}", peer.identity));
        }
        if peer.not_after > before.not_after {
            self.peer.send_replace(Some(peer));
        }
        Ok(())
    }
}

/// Completes once the certificate has expired that was shown last; never where none was shown.
pub(super) async fn expired(mut certificate: watch::Receiver<Option<Peer>>) -> String {
    loop {
        let peer = certificate.borrow_and_update().clone();
        let Some(peer) = peer else { return std::future::pending().await };
        tokio::select! {
            () = until_expired(peer.not_after) => {
                return format!(
                    "the certificate of {} has expired, and no newer one was shown on this connection",
                    peer.identity
                );
            }
            // Nobody renews any more; it expires all the same.
            Ok(()) = certificate.changed() => {}
        }
    }
}

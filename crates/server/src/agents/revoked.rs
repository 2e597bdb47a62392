//! Revoked nodes: their connections are closed, on every server, within a second.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use berth_model::{Index, NodeId, store::Joins};
use berth_tls::Peer;
use tokio::sync::watch;

use crate::shared::{State, View};

/// How often the state is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Changes whenever a node is revoked: the index of the last revocation, and how many nodes are.
type RevocationMark = (Index, usize);

/// Wakes connections when nodes were revoked.
#[derive(Clone)]
pub(super) struct Revocations(watch::Receiver<RevocationMark>);

impl Revocations {
    /// Follows the state for as long as anybody listens.
    pub fn follow(state: &State) -> Self {
        let (sender, receiver) = watch::channel(RevocationMark::default());
        let view: Arc<ArcSwap<View>> = state.view.clone();
        tokio::spawn(async move {
            while !sender.is_closed() {
                let now = mark(view.load().store.acl().joins());
                sender.send_if_modified(|before| std::mem::replace(before, now) != now);
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        });
        Self(receiver)
    }

    /// The same since now: what was revoked before is looked at as sessions are opened.
    pub fn since_now(&self) -> Self {
        let mut receiver = self.0.clone();
        receiver.mark_unchanged();
        Self(receiver)
    }

    /// Completes when nodes were revoked since the last call.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

fn mark(joins: &Joins) -> RevocationMark {
    (joins.revoked_index(), joins.revoked().len())
}

/// Whether a certificate was issued before the certificates of this node were revoked.
pub(super) fn is_revoked(joins: &Joins, node: NodeId, peer: &Peer) -> bool {
    joins.revoked_at(node).is_some_and(|at| peer.not_before <= at.0 / NANOS_PER_SEC)
}

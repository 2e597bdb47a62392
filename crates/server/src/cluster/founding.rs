//! Several servers with empty directories found a cluster together, as with Nomad's `bootstrap_expect`. Each learns of the
//! others from those that it knows. Once one knows as many as are expected, and has the smallest id of them, it asks
//! each of them to agree to exactly these. A server agrees once and to one set, so that two sets, which would have a server
//! in common, never both found a cluster.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use berth_replication::Peer;
use tokio::sync::watch;

use super::{
    Cluster,
    wire::{FoundingPeers, KnownServer, PeerAnswer, PeerRequest},
};

/// Time between two rounds.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// Servers without a cluster that are remembered; the rest are ignored.
const KNOWN_MAX: usize = 64;

/// A server that waits for others.
pub(crate) struct Founding {
    expect: u32,
    own: u64,
    state: Mutex<FoundingState>,
}

#[derive(Default)]
struct FoundingState {
    known: BTreeMap<u64, Peer>,
    /// The servers that this one has agreed to.
    agreed: Option<Vec<u64>>,
}

impl Founding {
    /// Waits until `expect` servers are there.
    pub fn new(expect: u32, own: u64, peer: Peer) -> Arc<Self> {
        let known = BTreeMap::from([(own, peer)]);
        Arc::new(Self { expect, own, state: Mutex::new(FoundingState { known, agreed: None }) })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, FoundingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, known: Vec<KnownServer>) {
        let mut state = self.state();
        for KnownServer { id, peer } in known {
            if state.known.len() < KNOWN_MAX || state.known.contains_key(&id) {
                state.known.insert(id, peer);
            }
        }
    }

    fn known(&self) -> Vec<KnownServer> {
        self.state().known.iter().map(|(id, peer)| KnownServer { id: *id, peer: peer.clone() }).collect()
    }

    /// Handles the request of another server without a cluster.
    pub(super) fn on_meet(&self, cluster: &Cluster, meeting: FoundingPeers) -> PeerAnswer {
        if cluster.belongs() {
            return PeerAnswer::Taken;
        }
        if meeting.expect != self.expect {
            return PeerAnswer::Refused(format!(
                "this server was started with --bootstrap-expect {}, the other one with {}: they must be the same",
                self.expect, meeting.expect
            ));
        }
        self.learn(meeting.known);
        PeerAnswer::Met(self.known())
    }

    /// Another server proposes to found a cluster of these.
    pub(super) fn on_agree(&self, cluster: &Cluster, servers: Vec<u64>) -> PeerAnswer {
        if cluster.belongs() || servers.len() != self.expect as usize || !servers.contains(&self.own) {
            return PeerAnswer::Taken;
        }
        let mut state = self.state();
        if *state.agreed.get_or_insert_with(|| servers.clone()) == servers {
            PeerAnswer::Done
        } else {
            PeerAnswer::Taken
        }
    }

    /// The servers that found the cluster, once enough are known and if this server has the smallest id of them, and so asks the others.
    fn ready(&self) -> Option<BTreeMap<u64, Peer>> {
        let state = self.state();
        let founders: BTreeMap<u64, Peer> =
            state.known.iter().take(self.expect as usize).map(|(id, peer)| (*id, peer.clone())).collect();
        let complete = founders.len() == self.expect as usize;
        (complete && founders.first_key_value().is_some_and(|(id, _)| *id == self.own)).then_some(founders)
    }
}

impl Cluster {
    /// Whether this server belongs to a cluster, as far as its log says.
    pub(super) fn belongs(&self) -> bool {
        !self.replication.members().all.is_empty()
    }
}

/// Looks for the others until there is a cluster, or `stop` says so.
pub(crate) async fn found(
    cluster: Arc<Cluster>,
    founding: Arc<Founding>,
    addresses: Vec<String>,
    mut stop: watch::Receiver<bool>,
) {
    let mut last_error = String::new();
    while !cluster.belongs() {
        let outcome = meet(&cluster, &founding, &addresses).await;
        if let Err(why) = outcome
            && why != last_error
        {
            tracing::warn!(why, "waiting for the other servers");
            last_error = why;
        }
        if let Some(servers) = founding.ready()
            && agree(&cluster, &servers).await
            && let Err(error) = cluster.replication.found(servers).await
        {
            tracing::error!(%error, "could not found the cluster");
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_AFTER) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

async fn meet(cluster: &Cluster, founding: &Founding, addresses: &[String]) -> Result<(), String> {
    let own = cluster.replication.own().address.clone();
    let known: Vec<String> = founding.known().into_iter().map(|known| known.peer.address).collect();
    let mut outcome = Ok(());
    for address in addresses.iter().chain(&known).filter(|address| **address != own) {
        let meeting = FoundingPeers { expect: founding.expect, known: founding.known() };
        match cluster.ask_address(address, &PeerRequest::Meet(meeting)).await {
            Ok(PeerAnswer::Met(known)) => founding.learn(known),
            Ok(PeerAnswer::Refused(why)) | Err(why) => outcome = Err(why),
            // It belongs to a cluster already: [`super::join::join`], which runs beside this, asks it to be added.
            Ok(_) => {}
        }
    }
    outcome
}

/// Whether all of them agree.
async fn agree(cluster: &Cluster, servers: &BTreeMap<u64, Peer>) -> bool {
    let ids: Vec<u64> = servers.keys().copied().collect();
    for (id, peer) in servers {
        let agrees = if *id == cluster.replication.server_id() {
            cluster.engine.get().is_some()
        } else {
            let answer = cluster.ask_address(&peer.address, &PeerRequest::Agree(ids.clone())).await;
            matches!(answer, Ok(PeerAnswer::Done))
        };
        if !agrees {
            return false;
        }
    }
    true
}

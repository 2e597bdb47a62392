//! Joins a server to a cluster, and reports its new address to the cluster after a move.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use berth_replication::{Peer, peer::PeerAddress};
use tokio::sync::watch;

use super::{
    Cluster,
    wire::{self, JoinRequest, PeerAnswer, PeerRequest},
};

/// Time between two rounds.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How long one server may take to answer: it may wait for a majority.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Servers that are tried in one round, redirects included.
const ASKED_MAX: usize = 16;

/// Time between two rounds of asking the addresses that have not answered yet which cluster they are of.
const ASK_CLUSTER_EVERY: Duration = Duration::from_secs(3);

/// Asks the known servers, and those at `addresses`, to add this server, or to record its new address or name, whenever the
/// membership says otherwise. Ends when `stop` says so.
pub(crate) async fn join(cluster: Arc<Cluster>, addresses: Vec<String>, mut stop: watch::Receiver<bool>) {
    let own = JoinRequest {
        id: cluster.replication.server_id(),
        peer: cluster.replication.own().clone(),
        member: false,
    };
    let mut last_error = String::new();
    loop {
        if !cluster.is_removed() && !cluster.is_known(&own.peer) {
            let member = cluster.replication.members().find(own.id).is_some();
            let outcome = cluster.ask_to_join(&JoinRequest { member, ..own.clone() }, &addresses).await;
            match outcome {
                Err(why) if why != last_error => {
                    tracing::warn!(why, "the cluster has not admitted this server yet; retrying");
                    last_error = why;
                }
                _ => {}
            }
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_AFTER) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// Asks those at `addresses` which cluster they are of, until each has answered. A server belongs to one cluster for good: one whose
/// data directory is of another cluster than it is to join says so, and stays where it is. It does not refuse to start, because
/// its own cluster may need it, whatever has come to listen at an address. Ends when `stop` says so.
pub(crate) async fn check_cluster_of_others(
    cluster: Arc<Cluster>,
    mut addresses: Vec<String>,
    mut stop: watch::Receiver<bool>,
) {
    let own = cluster.replication.own().address.clone();
    addresses.retain(|address| *address != own);
    let looking = async {
        while !addresses.is_empty() {
            if cluster.belongs() {
                addresses = cluster.without_known(addresses).await;
            }
            tokio::time::sleep(ASK_CLUSTER_EVERY).await;
        }
    };
    tokio::select! {
        () = looking => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

impl Cluster {
    /// Joins the cluster of the server that listens at an address, if this one belongs to none; otherwise sees whether the
    /// two are of the same.
    ///
    /// # Errors
    /// Why they are not in one cluster: for users.
    pub async fn join(&self, address: &str) -> Result<(), String> {
        if self.belongs() {
            let ping = self.ask_address(address, &PeerRequest::Ping).await;
            return ping.map(drop).map_err(|why| {
                format!(
                    "this server belongs to a cluster already, and {address} is not known to be of it: {why}"
                )
            });
        }
        let own = JoinRequest {
            id: self.replication.server_id(),
            peer: self.replication.own().clone(),
            member: false,
        };
        self.ask_to_join(&own, &[address.to_owned()]).await
    }

    /// Those addresses at which no server has said yet which cluster it is of. Logs an error for each server of another cluster.
    async fn without_known(&self, addresses: Vec<String>) -> Vec<String> {
        let mut unknown = Vec::new();
        for address in addresses {
            match self.replication.peers().other_cluster(&PeerAddress(address.clone())).await {
                Ok(None) => {}
                Ok(Some(why)) => tracing::error!(
                    address,
                    why,
                    "this server was started to join another cluster than the one that its data directory belongs to, and stays \
                     in that one; to have it join the other, start it with a data directory of its own"
                ),
                Err(_) => unknown.push(address),
            }
        }
        unknown
    }

    /// Whether the membership has this server with its current address and name.
    fn is_known(&self, own: &Peer) -> bool {
        self.replication
            .members()
            .find(self.replication.server_id())
            .is_some_and(|member| member.peer == *own)
    }

    /// Asks one server after the other, and the leader that they name.
    async fn ask_to_join(&self, own: &JoinRequest, addresses: &[String]) -> Result<(), String> {
        if self.replication.is_leader() {
            let recorded = self.replication.set_member(own.id, own.peer.clone()).await;
            return recorded.map_err(|error| error.to_string());
        }
        let members = self.replication.members();
        let members = members.all.iter().filter(|member| member.id != own.id);
        let known = members.map(|member| member.peer.address.clone());
        let mut to_ask: VecDeque<String> =
            addresses.iter().cloned().chain(known).filter(|address| *address != own.peer.address).collect();
        let mut last = Err("there is nobody to ask: name a server of the cluster with --join".to_owned());
        let mut tried = Vec::new();
        while let Some(address) = to_ask.pop_front() {
            if tried.contains(&address) || tried.len() >= ASKED_MAX {
                continue;
            }
            tried.push(address.clone());
            last = match self.ask_address(&address, &PeerRequest::Join(own.clone())).await {
                Ok(PeerAnswer::Done) => return Ok(()),
                Ok(PeerAnswer::NotLeader(Some(leader))) => {
                    to_ask.push_front(leader.peer.address.clone());
                    Err(format!("{} leads", leader.peer.address))
                }
                Ok(PeerAnswer::NotLeader(None)) => Err(format!("{address} knows no leader")),
                Ok(PeerAnswer::Refused(why) | PeerAnswer::Unknown(why)) => Err(why),
                Ok(_) => Err(format!("{address} gives an answer that makes no sense")),
                Err(why) => Err(why),
            };
        }
        last
    }

    /// Asks whoever listens at an address.
    pub(super) async fn ask_address(
        &self,
        address: &str,
        request: &PeerRequest,
    ) -> Result<PeerAnswer, String> {
        let body = wire::encode(request);
        let to = PeerAddress(address.to_owned());
        let response = self.replication.peers().request_of_stranger(&to, &body, ANSWER_MAX).await;
        wire::decode(&response.map_err(|error| error.to_string())?)
    }
}

//! Access to agents that are connected to any server: requests are relayed to the server that has the session, and responses come
//! back the same way.

mod own_log;
mod remote;
mod service;
mod wire;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use berth_api::{
    LogDetail,
    agent::{AgentOutcome, AgentQuery},
};
use berth_model::NodeId;
use berth_replication::peer::PeerAddress;
use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{Cluster, wire::PeerRequest};
use crate::{
    agents::Registry,
    shared::{AgentError, Agents, ExecLink, ExecRequest, ReadPieces, ReadRequest},
};
use remote::RemoteServer;
pub(super) use service::AgentService;
pub(super) use wire::{RelayedAnswer, RelayedRequest};

/// Timeout of the search for the server that has an agent.
const FIND_MAX: Duration = Duration::from_secs(2);

/// All agents of the cluster.
pub(crate) struct AllAgents {
    own: Arc<Registry>,
    cluster: Arc<Cluster>,
}

/// Which server has the session of an agent.
enum AgentRoute {
    /// To this server, or to none.
    Here,
    /// To another server.
    There(RemoteServer),
}

impl AllAgents {
    /// Agents of this server, and of the others.
    pub fn new(own: Arc<Registry>, cluster: Arc<Cluster>) -> Self {
        Self { own, cluster }
    }

    async fn reach(&self, node: NodeId) -> AgentRoute {
        if self.own.has(node) || self.cluster.is_alone() {
            return AgentRoute::Here;
        }
        match self.find(node).await {
            Some(server) => AgentRoute::There(RemoteServer::new(self.cluster.clone(), server, Some(node))),
            None => AgentRoute::Here,
        }
    }

    /// The server that has the session of a node, as the first that has one says.
    async fn find(&self, node: NodeId) -> Option<(u64, PeerAddress)> {
        let members = self.cluster.replication.members();
        let own = self.cluster.replication.server_id();
        let others = members.all.into_iter().filter(|member| member.id != own);
        let request = PeerRequest::Agent(RelayedRequest::Find(node));
        let mut requests: FuturesUnordered<_> = others
            .map(|member| {
                let (request, server) = (&request, (member.id, PeerAddress(member.peer.address)));
                async move {
                    let answer = self.cluster.ask_for(&server, request, FIND_MAX).await;
                    matches!(answer, Ok(super::wire::PeerAnswer::Agent(RelayedAnswer::Done)))
                        .then_some(server)
                }
            })
            .collect();
        while let Some(found) = requests.next().await {
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

impl Cluster {
    /// Follows the log of another server, which sends it over the same way as what it has of agents.
    pub(crate) async fn server_log(
        self: &Arc<Self>,
        id: u64,
        detail: LogDetail,
    ) -> Result<ReadPieces, AgentError> {
        let peer = self.replication.peer(id);
        let peer = peer.ok_or_else(|| AgentError::NotFound(format!("server {id} is not of this cluster")))?;
        RemoteServer::new(self.clone(), (id, PeerAddress(peer.address)), None).server_log(detail).await
    }
}

#[async_trait]
impl Agents for AllAgents {
    async fn read_file(&self, node: NodeId, request: ReadRequest) -> Result<ReadPieces, AgentError> {
        match self.reach(node).await {
            AgentRoute::Here => self.own.read_file(node, request).await,
            AgentRoute::There(remote) => remote.read_file(request).await,
        }
    }

    async fn ask(&self, node: NodeId, query: AgentQuery) -> Result<AgentOutcome, AgentError> {
        match self.reach(node).await {
            AgentRoute::Here => self.own.ask(node, query).await,
            AgentRoute::There(remote) => remote.ask(query).await,
        }
    }

    async fn exec(&self, node: NodeId, request: ExecRequest) -> Result<ExecLink, AgentError> {
        match self.reach(node).await {
            AgentRoute::Here => self.own.exec(node, request).await,
            AgentRoute::There(remote) => remote.exec(request).await,
        }
    }
}

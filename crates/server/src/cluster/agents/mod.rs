//! Agents, whichever server they are connected to: what is asked of one goes to the server that has its session, and what it
//! answers comes back the same way.

mod lent;
mod own_log;
mod remote;
mod wire;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use berth_api::{
    LogDetail,
    agent::{Outcome, Question},
};
use berth_model::NodeId;
use berth_replication::peer::PeerAddress;
use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{Cluster, wire::Request};
use crate::{
    agents::Registry,
    shared::{AgentError, Agents, ExecLink, ExecRequest, ReadPieces, ReadRequest},
};
pub(super) use lent::Lent;
use remote::Remote;
pub(super) use wire::{AgentAnswer, AgentRequest};

/// How long servers are asked whether they have an agent.
const FIND_MAX: Duration = Duration::from_secs(2);

/// All agents of the cluster.
pub(crate) struct AllAgents {
    own: Arc<Registry>,
    cluster: Arc<Cluster>,
}

/// Where an agent is connected.
enum Reached {
    /// Here, or nowhere.
    Here,
    /// To another server.
    There(Remote),
}

impl AllAgents {
    /// Those of this server, and of the others.
    pub fn new(own: Arc<Registry>, cluster: Arc<Cluster>) -> Self {
        Self { own, cluster }
    }

    async fn reach(&self, node: NodeId) -> Reached {
        if self.own.has(node) || self.cluster.is_alone() {
            return Reached::Here;
        }
        match self.find(node).await {
            Some(server) => Reached::There(Remote::new(self.cluster.clone(), server, Some(node))),
            None => Reached::Here,
        }
    }

    /// The server that has the session of a node, as the first that has one says.
    async fn find(&self, node: NodeId) -> Option<(u64, PeerAddress)> {
        let members = self.cluster.replication.members();
        let own = self.cluster.replication.server_id();
        let others = members.all.into_iter().filter(|member| member.id != own);
        let request = Request::Agent(AgentRequest::Find(node));
        let mut asked: FuturesUnordered<_> = others
            .map(|member| {
                let (request, server) = (&request, (member.id, PeerAddress(member.peer.address)));
                async move {
                    let answer = self.cluster.ask_for(&server, request, FIND_MAX).await;
                    matches!(answer, Ok(super::wire::Answer::Agent(AgentAnswer::Done))).then_some(server)
                }
            })
            .collect();
        while let Some(found) = asked.next().await {
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
        Remote::new(self.clone(), (id, PeerAddress(peer.address)), None).server_log(detail).await
    }
}

#[async_trait]
impl Agents for AllAgents {
    async fn read_file(&self, node: NodeId, request: ReadRequest) -> Result<ReadPieces, AgentError> {
        match self.reach(node).await {
            Reached::Here => self.own.read_file(node, request).await,
            Reached::There(remote) => remote.read_file(request).await,
        }
    }

    async fn ask(&self, node: NodeId, question: Question) -> Result<Outcome, AgentError> {
        match self.reach(node).await {
            Reached::Here => self.own.ask(node, question).await,
            Reached::There(remote) => remote.ask(question).await,
        }
    }

    async fn exec(&self, node: NodeId, request: ExecRequest) -> Result<ExecLink, AgentError> {
        match self.reach(node).await {
            Reached::Here => self.own.exec(node, request).await,
            Reached::There(remote) => remote.exec(request).await,
        }
    }
}

//! Handles the requests of other servers.

use std::sync::{Arc, OnceLock};

use berth_replication::peer::{PeerIdentity, Service};
use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::{
    Cluster,
    founding::Founding,
    relay::Relay,
    wire::{self, PeerAnswer, PeerRequest, ServerPulse},
};

/// Answers other servers. There is a moment between the listener and the cluster: until then it answers that it starts.
pub(crate) struct Requests {
    cluster: OnceLock<Arc<Cluster>>,
    founding: OnceLock<Arc<Founding>>,
    relay: Arc<Relay>,
}

impl Requests {
    /// Requests are refused until [`Self::begin`].
    pub fn new(relay: Arc<Relay>) -> Self {
        Self { cluster: OnceLock::new(), founding: OnceLock::new(), relay }
    }

    /// From now on requests are answered.
    pub fn begin(&self, cluster: Arc<Cluster>, founding: Option<Arc<Founding>>) {
        if let Some(founding) = founding {
            self.founding.set(founding).ok();
        }
        self.cluster.set(cluster).ok();
    }
}

impl Service for Requests {
    fn request(&self, from: PeerIdentity, request: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let (cluster, founding) = (self.cluster.get().cloned(), self.founding.get().cloned());
        Box::pin(async move {
            let request = wire::decode(&request)?;
            let cluster = cluster.ok_or("this server is starting: try again in a moment")?;
            let answer = answer(&cluster, founding.as_deref(), from, request).await?;
            Ok(wire::encode(&answer).into())
        })
    }

    fn message(&self, from: PeerIdentity, message: Bytes) {
        self.relay.take(from, &message);
    }
}

async fn answer(
    cluster: &Cluster,
    founding: Option<&Founding>,
    from: PeerIdentity,
    request: PeerRequest,
) -> Result<PeerAnswer, String> {
    let needs_member = matches!(
        request,
        PeerRequest::Propose(_)
            | PeerRequest::ReadPosition
            | PeerRequest::Change(_)
            | PeerRequest::Agent(_)
            | PeerRequest::Kek(_)
            | PeerRequest::HoldKek(_)
            | PeerRequest::Stopping
    );
    if needs_member && cluster.replication.peer(from.server).is_none() {
        return Err(format!("server {} is not of this cluster", from.server));
    }
    Ok(match request {
        PeerRequest::Join(joining) if joining.id != from.server => {
            return Err(format!("server {} asks for server {}", from.server, joining.id));
        }
        PeerRequest::Join(joining) => cluster.take_in(joining).await,
        PeerRequest::Propose(commands) => {
            let commands = wire::decode_commands(&commands)?;
            if !cluster.leads() {
                return Ok(cluster.not_leader());
            }
            let outcome = cluster.write_here(commands).await;
            if cluster.is_passing(&outcome) { cluster.not_leader() } else { outcome.into() }
        }
        PeerRequest::ReadPosition => cluster.position().await,
        PeerRequest::Change(change) if cluster.replication.is_leader() => cluster.change_here(change).await,
        PeerRequest::Change(_) => cluster.not_leader(),
        PeerRequest::Ping => {
            let knows_you = cluster.knows_as_member(from.server);
            PeerAnswer::Here(ServerPulse { knows_you, ..cluster.pulse() })
        }
        PeerRequest::Stopping => {
            cluster.pulses.on_stopping(from.server);
            PeerAnswer::Done
        }
        PeerRequest::Agent(request) => {
            PeerAnswer::Agent(cluster.agent_service.answer(from.server, request).await)
        }
        PeerRequest::Kek(id) => cluster.on_kek_asked(id),
        PeerRequest::HoldKek(kek) => cluster.on_kek_given(kek).await,
        PeerRequest::Meet(meeting) => {
            founding.map_or(PeerAnswer::Taken, |founding| founding.on_meet(cluster, meeting))
        }
        PeerRequest::Agree(servers) => {
            founding.map_or(PeerAnswer::Taken, |founding| founding.on_agree(cluster, servers))
        }
    })
}

impl Cluster {
    /// Whether a server is a member of this cluster. Only the leader can tell; another server reports removed ones alone, so that a
    /// removed server learns of it even if it has never heard of the current leader.
    fn knows_as_member(&self, server: u64) -> Option<bool> {
        if self.leads() {
            return Some(self.replication.peer(server).is_some());
        }
        self.replication.was_removed(server).then_some(false)
    }

    /// The position in the log that a linearizable read has to wait for.
    async fn position(&self) -> PeerAnswer {
        match self.replication.read_position().await {
            Ok(position) => PeerAnswer::Position(position, Some(self.published.borrow().0)),
            Err(berth_replication::ReadError::NotLeader { .. }) => self.not_leader(),
            Err(error) => PeerAnswer::Refused(error.to_string()),
        }
    }
}

//! What other servers ask this one.

use std::sync::{Arc, OnceLock};

use berth_replication::peer::{PeerIdentity, Service};
use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::{
    Cluster,
    found::Founding,
    relay::Relay,
    wire::{self, Answer, Pulse, Request},
};

/// Answers other servers. There is a moment between the listener and the cluster: until then it answers that it starts.
pub(crate) struct Requests {
    cluster: OnceLock<Arc<Cluster>>,
    founding: OnceLock<Arc<Founding>>,
    relay: Arc<Relay>,
}

impl Requests {
    /// Nothing is answered yet.
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
    request: Request,
) -> Result<Answer, String> {
    let needs_member = matches!(
        request,
        Request::Propose(_)
            | Request::ReadPosition
            | Request::Change(_)
            | Request::Agent(_)
            | Request::Kek(_)
            | Request::HoldKek(_)
            | Request::Stopping
    );
    if needs_member && cluster.replication.peer(from.server).is_none() {
        return Err(format!("server {} is not of this cluster", from.server));
    }
    Ok(match request {
        Request::Join(joining) if joining.id != from.server => {
            return Err(format!("server {} asks for server {}", from.server, joining.id));
        }
        Request::Join(joining) => cluster.take_in(joining).await,
        Request::Propose(commands) => {
            let commands = wire::decode_commands(&commands)?;
            if !cluster.leads() {
                return Ok(cluster.not_leader());
            }
            let written = cluster.write_here(commands).await;
            if cluster.is_passing(&written) { cluster.not_leader() } else { written.into() }
        }
        Request::ReadPosition => cluster.position().await,
        Request::Change(change) if cluster.replication.is_leader() => cluster.change_here(change).await,
        Request::Change(_) => cluster.not_leader(),
        Request::Ping => {
            let knows_you = cluster.knows_as_member(from.server);
            Answer::Here(Pulse { knows_you, ..cluster.pulse() })
        }
        Request::Stopping => {
            cluster.pulses.on_stopping(from.server);
            Answer::Done
        }
        Request::Agent(request) => Answer::Agent(cluster.lent.answer(from.server, request).await),
        Request::Kek(id) => cluster.on_kek_asked(id),
        Request::HoldKek(kek) => cluster.on_kek_given(kek).await,
        Request::Meet(meeting) => {
            founding.map_or(Answer::Taken, |founding| founding.on_meet(cluster, meeting))
        }
        Request::Agree(servers) => {
            founding.map_or(Answer::Taken, |founding| founding.on_agree(cluster, servers))
        }
    })
}

impl Cluster {
    /// Whether a server is of this cluster: what who leads says of it. Another server says so of one that was removed and of no
    /// other, since who leads may be one that the removed server has never heard of.
    fn knows_as_member(&self, server: u64) -> Option<bool> {
        if self.leads() {
            return Some(self.replication.peer(server).is_some());
        }
        self.replication.was_removed(server).then_some(false)
    }

    /// Where a read has to be.
    async fn position(&self) -> Answer {
        match self.replication.read_position().await {
            Ok(position) => Answer::Position(position, Some(self.published.borrow().0)),
            Err(berth_replication::ReadError::NotLeader { .. }) => self.not_leader(),
            Err(error) => Answer::Refused(error.to_string()),
        }
    }
}

//! Carries what the controllers of servers tell each other about agents: out in order, server by server, as far as a
//! connection takes it, and in as far as there is room. What cannot be carried is dropped, and whoever misses it begins anew.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use berth_controller::{ServerId, ServerMessage};
use berth_replication::peer::{From, PeerAddress, RequestError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use super::Cluster;

/// Bytes that wait for one server, beyond which its controller keeps the rest, as differences.
const OUTGOING_BYTES_MAX: usize = 2 << 20;
/// Bytes that other servers told and that are not dealt with yet. Ends with what one frame may hold, and some more.
const INCOMING_BYTES_MAX: usize = 64 << 20;

/// What a relay needs of the cluster that it works for.
pub(crate) trait Around: Send + Sync + 'static {
    /// Where a server is reached; none of one that is not of this cluster.
    fn address(&self, server: ServerId) -> Option<PeerAddress>;

    /// Sends a message to a server there, as soon as its connection takes it.
    ///
    /// # Errors
    /// When it was not sent.
    fn send<'a>(
        &'a self,
        server: ServerId,
        address: &'a PeerAddress,
        message: &'a [u8],
    ) -> BoxFuture<'a, Result<(), RequestError>>;

    /// Hands a message to this server's controller; whether there was room. It holds its share of what may wait until it is
    /// dealt with.
    fn told(&self, from: ServerId, message: Box<ServerMessage>, share: OwnedSemaphorePermit) -> bool;
}

/// What controllers tell each other, on its way.
pub(crate) struct Relay {
    /// Set once the log is open.
    cluster: OnceLock<Arc<dyn Around>>,
    ways: Mutex<BTreeMap<ServerId, Way>>,
    /// Where tasks run: the controller's thread is none of the runtime's.
    runtime: Handle,
    incoming: Arc<Semaphore>,
}

/// The way to one server.
struct Way {
    messages: mpsc::UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
}

impl Way {
    /// What waited when it ended is gone: the next message makes another way.
    fn has_room(&self) -> bool {
        self.messages.is_closed() || self.waiting.load(Ordering::Acquire) < OUTGOING_BYTES_MAX
    }
}

impl Relay {
    /// Of a server whose log is not open yet. To be called within a runtime.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            cluster: OnceLock::new(),
            ways: Mutex::default(),
            runtime: Handle::current(),
            incoming: Arc::new(Semaphore::new(INCOMING_BYTES_MAX)),
        })
    }

    /// From now on there are others.
    pub fn begin(&self, cluster: Arc<dyn Around>) {
        self.cluster.set(cluster).ok();
    }

    /// Whether a message to a server would be on its way soon.
    pub fn has_room(&self, server: ServerId) -> bool {
        let ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        ways.get(&server).is_none_or(Way::has_room)
    }

    /// Tells a server something. Who has asked whether there is room finds some for a frame.
    pub fn tell(&self, server: ServerId, message: &ServerMessage) {
        let Some(cluster) = self.cluster.get() else { return };
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        ways.retain(|_, way| !way.messages.is_closed());
        let way = ways.entry(server).or_insert_with(|| {
            let (messages, received) = mpsc::unbounded_channel();
            let waiting = Arc::<AtomicUsize>::default();
            self.runtime.spawn(carry(cluster.clone(), server, received, waiting.clone()));
            Way { messages, waiting }
        });
        let len = bytes.len();
        way.waiting.fetch_add(len, Ordering::AcqRel);
        if way.messages.send(bytes.into()).is_err() {
            way.waiting.fetch_sub(len, Ordering::AcqRel);
        }
    }

    /// Takes in what a server tells.
    pub fn take(&self, from: From, message: &Bytes) {
        let Some(cluster) = self.cluster.get() else { return };
        let server = ServerId(from.server);
        if cluster.address(server).is_none() {
            tracing::debug!(server = from.server, "a message of a server that is not of this cluster");
            return;
        }
        let size = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let Ok(share) = self.incoming.clone().try_acquire_many_owned(size) else {
            tracing::debug!(server = from.server, "messages of servers were dropped: too many wait");
            return;
        };
        match ServerMessage::decode(message) {
            Ok(message) => {
                if !cluster.told(server, Box::new(message), share) {
                    tracing::debug!(
                        server = from.server,
                        "a message of a server was dropped: the queue is full"
                    );
                }
            }
            Err(error) => tracing::warn!(server = from.server, %error, "not understood"),
        }
    }
}

/// Carries messages to a server, until it is one of this cluster no more.
async fn carry(
    cluster: Arc<dyn Around>,
    server: ServerId,
    mut messages: mpsc::UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(message) = messages.recv().await {
        let Some(address) = cluster.address(server) else { return };
        if let Err(error) = cluster.send(server, &address, &message).await {
            tracing::debug!(server = server.0, %error, "a message is lost");
        }
        waiting.fetch_sub(message.len(), Ordering::AcqRel);
    }
}

impl Around for Cluster {
    fn address(&self, server: ServerId) -> Option<PeerAddress> {
        let members = self.replication.members();
        members.find(server.0).map(|member| PeerAddress(member.peer.address.clone()))
    }

    fn send<'a>(
        &'a self,
        server: ServerId,
        address: &'a PeerAddress,
        message: &'a [u8],
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        Box::pin(self.replication.peers().tell(server.0, address, message))
    }

    fn told(&self, from: ServerId, message: Box<ServerMessage>, share: OwnedSemaphorePermit) -> bool {
        self.engine.get().is_some_and(|engine| engine.told(from, message, share.into()))
    }
}

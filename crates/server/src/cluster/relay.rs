//! Carries what the controllers of servers tell each other about agents: out in order, server by server, as far as a
//! connection takes it, and in as far as there is room. What cannot be carried is dropped, and whoever misses it begins anew.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use berth_controller::{ServerId, ServerMessage};
use berth_replication::peer::{From, PeerAddress};
use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc},
};

use super::Cluster;

/// Bytes that wait for one server, beyond which its controller keeps the rest, as differences.
const OUTGOING_BYTES_MAX: usize = 2 << 20;
/// Bytes that other servers told and that are not dealt with yet. Ends with what one frame may hold, and some more.
const INCOMING_BYTES_MAX: usize = 64 << 20;

/// What controllers tell each other, on its way.
pub(crate) struct Relay {
    /// Set once the log is open.
    cluster: OnceLock<Arc<Cluster>>,
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
    pub fn begin(&self, cluster: Arc<Cluster>) {
        self.cluster.set(cluster).ok();
    }

    /// Whether a message to a server would be on its way soon.
    pub fn has_room(&self, server: ServerId) -> bool {
        let ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        ways.get(&server).is_none_or(|way| way.waiting.load(Ordering::Acquire) < OUTGOING_BYTES_MAX)
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
        if cluster.replication.members().find(from.server).is_none() {
            tracing::debug!(server = from.server, "a message of a server that is not of this cluster");
            return;
        }
        let size = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let Ok(share) = self.incoming.clone().try_acquire_many_owned(size) else {
            tracing::debug!(server = from.server, "too much that servers told waits here");
            return;
        };
        match ServerMessage::decode(message) {
            Ok(message) => {
                let told = cluster.engine.get().is_some_and(|engine| {
                    engine.told(ServerId(from.server), Box::new(message), share.into())
                });
                if !told {
                    tracing::debug!(server = from.server, "what a server told finds no room");
                }
            }
            Err(error) => tracing::warn!(server = from.server, %error, "not understood"),
        }
    }
}

/// Carries messages to a server, until it is one of this cluster no more.
async fn carry(
    cluster: Arc<Cluster>,
    server: ServerId,
    mut messages: mpsc::UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(message) = messages.recv().await {
        let members = cluster.replication.members();
        let Some(member) = members.find(server.0) else { return };
        let address = PeerAddress(member.peer.address.clone());
        if let Err(error) = cluster.replication.peers().tell(server.0, &address, &message).await {
            tracing::debug!(server = server.0, %error, "a message is lost");
        }
        waiting.fetch_sub(message.len(), Ordering::AcqRel);
    }
}

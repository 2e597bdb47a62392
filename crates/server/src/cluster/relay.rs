//! Carries messages between the controllers of servers: sent in order by server, as far as a connection takes them, and received
//! within a memory budget. What cannot be sent is dropped, and the receiver starts over.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use berth_controller::{ServerId, ServerMessage};
use berth_replication::peer::{PeerAddress, PeerIdentity, RequestError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use super::Cluster;

/// Bytes that wait for one server, beyond which its controller keeps the rest, as differences.
const OUTGOING_BYTES_MAX: usize = 2 << 20;
/// Bytes of received messages that are not handled yet, of all servers; more than one frame may hold.
const INCOMING_BYTES_MAX: usize = 64 << 20;

/// A message of fewer bytes is encoded where it is sent.
const ENCODED_AT_ONCE_BYTES: usize = 16 << 10;

/// What a relay needs of the cluster that it works for.
pub(crate) trait PeerTransport: Send + Sync + 'static {
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

    /// Hands a message to this server's controller; false when its queue is full. It holds its share of the budget until it is
    /// dealt with.
    fn deliver(&self, from: ServerId, message: Box<ServerMessage>, share: OwnedSemaphorePermit) -> bool;

    /// Informs this server's controller that the queue to a server, which it found full, takes more.
    fn has_room_again(&self);
}

/// Carries the messages between controllers.
pub(crate) struct Relay {
    /// Set once the log is open.
    cluster: OnceLock<Arc<dyn PeerTransport>>,
    queues: Mutex<BTreeMap<ServerId, PeerQueue>>,
    /// Where tasks run: the controller's thread is none of the runtime's.
    runtime: Handle,
    incoming: Arc<Semaphore>,
}

/// The queue of messages to one server.
struct PeerQueue {
    /// Each with how many bytes it takes, about.
    messages: mpsc::UnboundedSender<(ServerMessage, usize)>,
    waiting: Arc<QueueDepth>,
}

/// The bytes that wait in a queue.
#[derive(Default)]
struct QueueDepth {
    bytes: AtomicUsize,
    /// Somebody found the queue full, and is informed once it takes more.
    is_awaited: AtomicBool,
}

impl PeerQueue {
    /// A queue whose task has ended takes messages too: the next one replaces it.
    fn has_room(&self) -> bool {
        self.messages.is_closed() || self.waiting.has_room()
    }
}

impl QueueDepth {
    fn has_room(&self) -> bool {
        let is_below = || self.bytes.load(Ordering::SeqCst) < OUTGOING_BYTES_MAX;
        if is_below() {
            return true;
        }
        self.is_awaited.store(true, Ordering::SeqCst);
        // Checked again after the flag is set: the queue may have been emptied in between, and nobody would wake the controller.
        is_below()
    }

    /// So many bytes have left the queue. Returns whether to wake the controller that found it full: only once it is half empty, not for
    /// each message.
    fn less(&self, bytes: usize) -> bool {
        let remaining = self.bytes.fetch_sub(bytes, Ordering::SeqCst) - bytes;
        remaining < OUTGOING_BYTES_MAX / 2 && self.is_awaited.swap(false, Ordering::SeqCst)
    }
}

impl Relay {
    /// A relay that drops all messages until [`Self::begin`]. To be called within a runtime.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            cluster: OnceLock::new(),
            queues: Mutex::default(),
            runtime: Handle::current(),
            incoming: Arc::new(Semaphore::new(INCOMING_BYTES_MAX)),
        })
    }

    /// Messages are sent and received from now on.
    pub fn begin(&self, cluster: Arc<dyn PeerTransport>) {
        self.cluster.set(cluster).ok();
    }

    /// Whether a message to a server would be on its way soon.
    pub fn has_room(&self, server: ServerId) -> bool {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.get(&server).is_none_or(PeerQueue::has_room)
    }

    /// Queues a message to a server. After [`Self::has_room`] a frame always fits.
    pub fn send(&self, server: ServerId, message: ServerMessage) {
        let Some(cluster) = self.cluster.get() else { return };
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|_, queue| !queue.messages.is_closed());
        let queue = queues.entry(server).or_insert_with(|| {
            let (messages, received) = mpsc::unbounded_channel();
            let waiting = Arc::<QueueDepth>::default();
            self.runtime.spawn(carry(cluster.clone(), server, received, waiting.clone()));
            PeerQueue { messages, waiting }
        });
        let bytes = message.bytes();
        queue.waiting.bytes.fetch_add(bytes, Ordering::SeqCst);
        if queue.messages.send((message, bytes)).is_err() {
            queue.waiting.less(bytes);
        }
    }

    /// Receives a message of a server.
    pub fn take(&self, from: PeerIdentity, message: &Bytes) {
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
                if !cluster.deliver(server, Box::new(message), share) {
                    tracing::debug!(
                        server = from.server,
                        "a message of a server was dropped: the queue is full"
                    );
                }
            }
            Err(error) => {
                tracing::warn!(server = from.server, %error, "could not decode a message from another server")
            }
        }
    }
}

/// Encoded on a thread of its own where that takes long: neither the controller nor connections wait for it.
async fn encode(message: ServerMessage, bytes: usize) -> Vec<u8> {
    let encoded = move |message: ServerMessage| {
        let mut out = Vec::with_capacity(bytes);
        message.encode(&mut out);
        out
    };
    if bytes < ENCODED_AT_ONCE_BYTES {
        return encoded(message);
    }
    // Whatever is lost shows as a frame that is missing.
    tokio::task::spawn_blocking(move || encoded(message)).await.unwrap_or_default()
}

/// Carries messages to a server, until it is one of this cluster no more.
async fn carry(
    cluster: Arc<dyn PeerTransport>,
    server: ServerId,
    mut messages: mpsc::UnboundedReceiver<(ServerMessage, usize)>,
    waiting: Arc<QueueDepth>,
) {
    while let Some((message, bytes)) = messages.recv().await {
        let Some(address) = cluster.address(server) else { return };
        if let Err(error) = cluster.send(server, &address, &encode(message, bytes).await).await {
            tracing::debug!(server = server.0, %error, "a message is lost");
        }
        if waiting.less(bytes) {
            cluster.has_room_again();
        }
    }
}

impl PeerTransport for Cluster {
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
        Box::pin(self.replication.peers().send_message(server.0, address, message))
    }

    fn deliver(&self, from: ServerId, message: Box<ServerMessage>, share: OwnedSemaphorePermit) -> bool {
        self.engine.get().is_some_and(|engine| engine.deliver(from, message, share.into()))
    }

    fn has_room_again(&self) {
        self.engine.get().into_iter().for_each(|engine| engine.servers_have_room());
    }
}

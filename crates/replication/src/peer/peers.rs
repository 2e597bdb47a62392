//! All other servers: the ways to them, and those who come from them.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use berth_model::command::ENTRY_VERSION;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, future::BoxFuture};

use super::{
    conn::{CallError, Conn, Handler},
    frame::{BODY_BYTES_MAX, Frame, FrameKind, Method},
    greeting::{Greeting, OUR_VERSION, OwnCluster},
    link::{DIAL_MAX, DialError, OwnServer, PeerLink},
    port::{Dial, PeerAddress, PeerChannel},
    versions::KnownVersion,
};
use crate::{
    ClusterMembers,
    runtime::{Runtime, Tokio, engine::AsyncRuntime},
};

/// Requests of the server above that one connection may have unanswered.
const REQUESTS_MAX: usize = 1024;

/// Servers of which it is remembered when they were heard.
const HEARD_MAX: usize = 256;

/// Bytes of messages that wait on one connection; whoever sends more waits.
const MESSAGES_BYTES_MAX: usize = 1 << 20;

/// Bytes of a request, an answer or a message of the server above.
pub const REQUEST_BYTES_MAX: usize = BODY_BYTES_MAX;

/// Who asks, as it introduced itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its id.
    pub server: u64,
    /// Its cluster's id; 0 when it has none yet.
    pub cluster: u128,
}

/// What the server above does for other servers.
pub trait Service: Send + Sync + 'static {
    /// Answers a request; an error says why nothing was done.
    fn request(&self, from: PeerIdentity, request: Bytes) -> BoxFuture<'static, Result<Bytes, String>>;

    /// Takes in a message, without waiting.
    fn message(&self, from: PeerIdentity, message: Bytes);
}

/// A request to another server has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It has not arrived there: it may be made again, also elsewhere.
    #[error("{0}")]
    NotSent(String),
    /// It may have arrived, and what was asked may have been done.
    #[error("{0}")]
    Unknown(String),
    /// The other server has done nothing, and says why.
    #[error("{0}")]
    Refused(String),
}

impl From<CallError> for RequestError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotSent(why) => Self::NotSent(why),
            CallError::Unknown(why) => Self::Unknown(why),
            CallError::Refused(why) => Self::Refused(why),
        }
    }
}

/// The other servers. A clone is the same.
pub struct Peers<R: Runtime = Tokio> {
    shared: Arc<PeersState>,
    runs_on: std::marker::PhantomData<R>,
}

impl<R: Runtime> Clone for Peers<R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), runs_on: self.runs_on }
    }
}

struct PeersState {
    own: OwnServer,
    service: Arc<dyn Service>,
    links: Mutex<BTreeMap<u64, Arc<PeerLink>>>,
    /// Deals with the consensus engine's frames; none until it runs, and once it has ended.
    consensus: Mutex<Option<Arc<dyn Handler>>>,
    /// Connections that others have opened.
    accepted: Mutex<Vec<Weak<Conn>>>,
    /// When each server was heard last.
    last_heard: Mutex<BTreeMap<u64, Duration>>,
}

impl PeersState {
    fn consensus(&self) -> MutexGuard<'_, Option<Arc<dyn Handler>>> {
        self.consensus.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_heard(&self, server: u64, now: Duration) {
        let mut last_heard = self.last_heard.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever introduces itself under one name after the other is remembered no more than a cluster's servers are.
        if last_heard.len() >= HEARD_MAX && !last_heard.contains_key(&server) {
            last_heard.pop_first();
        }
        last_heard.insert(server, now);
    }

    /// Remembers a connection that another has opened, to end it.
    fn remember(&self, conn: &Arc<Conn>) {
        let mut accepted = self.accepted();
        accepted.retain(|conn| conn.strong_count() > 0);
        accepted.push(Arc::downgrade(conn));
    }

    fn accepted(&self) -> MutexGuard<'_, Vec<Weak<Conn>>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Runtime> Peers<R> {
    /// Nobody is known yet.
    pub fn new(server: u64, dial: Arc<dyn Dial>, service: Arc<dyn Service>) -> Self {
        Self::knowing(server, dial, service, ENTRY_VERSION)
    }

    /// Those of a server that applies entries of the log up to a version, see [`crate::Config::entries`].
    pub fn knowing(server: u64, dial: Arc<dyn Dial>, service: Arc<dyn Service>, entries: u8) -> Self {
        let own = OwnServer { server, entries, cluster: OwnCluster::default(), dial, others: Arc::default() };
        let shared = PeersState {
            own,
            service,
            links: Mutex::default(),
            consensus: Mutex::default(),
            accepted: Mutex::default(),
            last_heard: Mutex::default(),
        };
        Self { shared: Arc::new(shared), runs_on: std::marker::PhantomData }
    }

    /// Those of a server that knows no others and listens to none.
    pub(crate) fn alone(server: u64) -> Self {
        Self::new(server, Arc::new(NoService), Arc::new(NoService))
    }

    /// This server's id.
    pub fn server(&self) -> u64 {
        self.shared.own.server
    }

    /// The cluster, as far as this server knows it.
    pub(crate) fn cluster(&self) -> &OwnCluster {
        &self.shared.own.cluster
    }

    /// From now on the consensus engine's frames are dealt with.
    pub(crate) fn serve_consensus(&self, handler: Arc<dyn Handler>) {
        *self.shared.consensus() = Some(handler);
    }

    /// The log has ended: nothing that concerns it is dealt with any more, and all connections end.
    pub(crate) fn close(&self) {
        *self.shared.consensus() = None;
        self.links().clear();
        let accepted = std::mem::take(&mut *self.shared.accepted());
        accepted.iter().filter_map(Weak::upgrade).for_each(|conn| conn.close("the server stops"));
    }

    fn links(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<PeerLink>>> {
        self.shared.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way to a server, which has this address now.
    pub(crate) fn link(&self, server: u64, address: &PeerAddress) -> Arc<PeerLink> {
        let mut links = self.links();
        match links.get(&server).filter(|link| link.to() == address) {
            Some(link) => Arc::clone(link),
            None => {
                let link = Arc::new(PeerLink::new(self.shared.own.clone(), server, address.clone()));
                links.insert(server, Arc::clone(&link));
                link
            }
        }
    }

    /// Asks all other members, as far as they are reached, whether the cluster was recovered without this server: whoever was
    /// left out must not elect and be elected, not even for a moment.
    ///
    /// # Errors
    /// When it was, with the text for users.
    pub(crate) async fn check_era(&self, members: &ClusterMembers) -> Result<(), String> {
        let own = &self.shared.own;
        let others = members.all.iter().filter(|member| member.id != own.server);
        let pending = others.map(async |member| {
            let address = PeerAddress(member.peer.address.clone());
            R::Async::timeout(DIAL_MAX, own.check_era(&address, member.id)).await.unwrap_or(Ok(()))
        });
        futures_util::future::join_all(pending).await.into_iter().collect()
    }

    /// Waits until there is a connection to a server, whose address is known from the cluster's membership.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn reach(&self, server: u64, address: &PeerAddress) -> Result<(), RequestError> {
        self.link(server, address).conn::<R>().await?;
        Ok(())
    }

    /// Asks a server, whose address is known from the cluster's membership.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn request(
        &self,
        server: u64,
        address: &PeerAddress,
        request: &[u8],
        patience: Duration,
    ) -> Result<Bytes, RequestError> {
        let link = self.link(server, address);
        let body = |out: &mut Vec<u8>| out.extend_from_slice(request);
        Ok(link.call::<R>(Method::Request, patience, body).await?)
    }

    /// Asks whoever listens at an address; the connection is for this request alone.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn request_of_stranger(
        &self,
        address: &PeerAddress,
        request: &[u8],
        patience: Duration,
    ) -> Result<Bytes, RequestError> {
        let opened = self.shared.own.open::<R>(address, 0).await;
        let conn = opened.map_err(|failed| RequestError::NotSent(failed.why))?;
        let pending = conn.call(Method::Request, |out| out.extend_from_slice(request))?;
        let answer = R::Async::timeout(patience, pending).await;
        conn.close("the request is answered");
        let late =
            || CallError::Unknown(format!("{address} has not answered within {} ms", patience.as_millis()));
        Ok(answer.unwrap_or_else(|_| Err(late()))?)
    }

    /// Tells a server something, if there is a connection to it or one can be opened, once not too much waits on it. Messages
    /// arrive in order, or their connection ends and the later ones come by another.
    ///
    /// # Errors
    /// When it was not sent.
    pub async fn send_message(
        &self,
        server: u64,
        address: &PeerAddress,
        message: &[u8],
    ) -> Result<(), RequestError> {
        let conn = self.link(server, address).conn::<R>().await?;
        conn.wait_for_capacity(Method::Relay, MESSAGES_BYTES_MAX).await;
        Ok(conn.send_message(Method::Relay, message)?)
    }

    /// What a server can apply, as it introduced itself last.
    pub(crate) fn knows(&self, server: u64) -> KnownVersion {
        let own = &self.shared.own;
        if server == own.server {
            return KnownVersion { server, version: Some(OUR_VERSION.to_owned()), entries: own.entries };
        }
        own.others.of(server)
    }

    /// Whether whoever listens at an address is of another cluster than this server: which two they are, for users.
    ///
    /// # Errors
    /// When nobody answers in time, or one of the two knows of no cluster yet.
    pub async fn other_cluster(&self, address: &PeerAddress) -> Result<Option<String>, String> {
        let pending = R::Async::timeout(DIAL_MAX, self.shared.own.other_cluster(address)).await;
        pending.unwrap_or_else(|_| Err(format!("reach {address}: no answer yet")))
    }

    /// Why other servers refuse this one, if it was started with an older version than the cluster has come to: for users.
    pub fn outgrown(&self) -> Option<String> {
        self.shared.own.others.outgrown()
    }

    /// Why no connection to a server could be opened, if the last could not: for users.
    pub fn why_not(&self, server: u64) -> Option<String> {
        Some(self.not_opened(server)?.why)
    }

    /// The same, where somebody answered there and one of the two sides does not accept the other.
    pub fn refusal(&self, server: u64) -> Option<String> {
        self.not_opened(server).filter(|failed| failed.is_refusal).map(|failed| failed.why)
    }

    fn not_opened(&self, server: u64) -> Option<DialError> {
        self.links().get(&server)?.why_not()
    }

    /// How long ago a server was last heard, on a connection in either direction; none for never.
    pub fn silence(&self, server: u64) -> Option<Duration> {
        let there = self.links().get(&server).and_then(|link| link.is_open()).map(|conn| conn.silence::<R>());
        let last_heard =
            self.shared.last_heard.lock().unwrap_or_else(PoisonError::into_inner).get(&server).copied();
        let here = last_heard.map(|at| R::now().saturating_sub(at));
        there.into_iter().chain(here).min()
    }

    /// Serves a connection that another server has opened, to its end. Returns why it has ended.
    pub async fn accept(&self, mut channel: PeerChannel) -> String {
        let greeted = R::Async::timeout(DIAL_MAX, self.greet(&mut channel)).await;
        let remote = match greeted.unwrap_or_else(|_| Err("it has not introduced itself in time".to_owned()))
        {
            Ok(remote) => remote,
            Err(why) => return why,
        };
        let conn = Conn::new::<R>(remote);
        self.shared.remember(&conn);
        let handler = Arc::new(IncomingFrames { peers: self.clone(), requests: Arc::default() });
        conn.run::<R>(channel, Some(handler)).await
    }

    async fn greet(&self, channel: &mut PeerChannel) -> Result<Greeting, String> {
        let first =
            channel.incoming.next().await.ok_or("it said nothing")?.map_err(|error| error.to_string())?;
        let remote = Greeting::decode(&first)?;
        let own = &self.shared.own;
        let mut ours = own.greeting(remote.server);
        let checked = channel.vouch(remote.server).and_then(|()| ours.admit(&remote, &own.cluster));
        ours.refusal = checked.clone().err();
        channel.outgoing.send(ours.encode().into()).await.map_err(|error| error.to_string())?;
        checked?;
        own.others.remember(&remote);
        Ok(remote)
    }
}

/// What comes by one connection.
struct IncomingFrames<R: Runtime> {
    peers: Peers<R>,
    /// Unanswered requests.
    requests: Arc<()>,
}

impl<R: Runtime> Handler for IncomingFrames<R> {
    fn on_frame(&self, conn: &Arc<Conn>, frame: Frame) -> Result<(), String> {
        let shared = &self.peers.shared;
        let from = PeerIdentity { server: conn.remote.server, cluster: conn.remote.cluster() };
        shared.on_heard(from.server, R::now());
        match (frame.kind, frame.method) {
            (FrameKind::Message, Method::Relay) => {
                shared.service.message(from, frame.body);
                Ok(())
            }
            (FrameKind::Call, Method::Request) => self.on_request(conn, from, frame),
            (FrameKind::Call, method) => {
                let consensus = shared.consensus().clone();
                match consensus {
                    Some(consensus) => consensus.on_frame(conn, frame),
                    None => {
                        conn.refuse(method, frame.call, "this server is starting or stopping");
                        Ok(())
                    }
                }
            }
            (kind, method) => Err(format!("{method:?} does not come as {kind:?}")),
        }
    }
}

impl<R: Runtime> IncomingFrames<R> {
    fn on_request(&self, conn: &Arc<Conn>, from: PeerIdentity, frame: Frame) -> Result<(), String> {
        let Frame { method, call, body, .. } = frame;
        if Arc::strong_count(&self.requests) > REQUESTS_MAX {
            conn.refuse(method, call, "too many requests of yours wait here already: try again in a moment");
            return Ok(());
        }
        let (counted, conn) = (Arc::clone(&self.requests), Arc::clone(conn));
        let answer = self.peers.shared.service.request(from, body);
        drop(R::Async::spawn(async move {
            match answer.await {
                Ok(answer) => conn.answer(method, call, |out| out.extend_from_slice(&answer)),
                Err(why) => conn.refuse(method, call, &why),
            }
            drop(counted);
        }));
        Ok(())
    }
}

/// A server without others.
struct NoService;

impl Dial for NoService {
    fn dial(&self, to: &PeerAddress) -> BoxFuture<'static, io::Result<PeerChannel>> {
        let why = format!("reach {to}: this server was started without a way to others");
        Box::pin(std::future::ready(Err(io::Error::other(why))))
    }
}

impl Service for NoService {
    fn request(&self, _: PeerIdentity, _: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        Box::pin(std::future::ready(Err("this server serves no others".to_owned())))
    }

    fn message(&self, _: PeerIdentity, _: Bytes) {}
}

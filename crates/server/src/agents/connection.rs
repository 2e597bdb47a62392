//! One agent connection: incoming frames become events, and messages to sessions become outgoing frames.

#[cfg(test)]
mod certificates;
#[cfg(test)]
mod damaged;
#[cfg(test)]
mod hostile;
mod peer_certificate;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use berth_api::agent::{
    AllocStatus, Down, Heartbeat, NodeChanged, PROTOCOL_VERSION, ReadSecrets, Renewed, SessionRefused,
    SignTokens, TaskApi, UPDATE_ALLOCS_MAX, Up, UpFrame, Update, WatchVariables,
};
use berth_controller::{Event, NodeCheckpoint, SessionId};
use berth_model::NodeId;
use berth_tls::Peer;
use bytes::BytesMut;
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use self::peer_certificate::PeerCertificate;
use super::{
    encode::frame,
    incoming::{BudgetShare, FrameReader},
    leaving,
    listen::ListenContext,
    outbound::{Outbound, OutboundReader},
    outline,
    revoked::is_revoked,
    secrets::{self, SecretsCaller},
    session_requests::SessionRequests,
    task_api::TaskApiSession,
    watches::Watcher,
};
use crate::{
    audit::{AuditCaller, cut},
    convert::agent as convert,
    engine::{EngineInput, SessionLink},
    net::RateExceeded,
    workload,
};

/// Sessions that one connection may carry.
const SESSIONS_MAX: usize = 1 << 16;
/// A write that takes longer means that the agent does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// Serves a connection until it ends.
///
/// `certificate` is the one that the agent has shown; without encryption it speaks for whichever node it names.
pub(super) async fn serve<R, W>(
    reader: R,
    writer: W,
    certificate: Option<Peer>,
    peer: SocketAddr,
    context: &Arc<ListenContext>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let ended = CancellationToken::new();
    let (outbound, messages) = Outbound::new(&context.in_flight, ended.clone());
    let mut writer_task = tokio::spawn(write(writer, messages));
    let frames = FrameReader::new(reader, context.incoming.clone());
    let nodes = Arc::<Mutex<BTreeSet<NodeId>>>::default();
    let certificate_shown = PeerCertificate::new(certificate);
    let revoked = until_revoked(context, certificate_shown.follow(), nodes.clone());
    let expired = peer_certificate::expired(certificate_shown.follow());
    let mut connection =
        AgentConnection { context, outbound, certificate_shown, peer, nodes, sessions: HashMap::new() };
    let outcome = tokio::select! {
        error = revoked => Err(error),
        why = expired => {
            tracing::info!(%peer, why, "an agent's connection is ended");
            Err(io::Error::other(why))
        }
        outcome = connection.read(frames) => outcome,
        outcome = &mut writer_task => outcome.unwrap_or_else(|error| Err(io::Error::other(error))),
        () = ended.cancelled() => Err(io::Error::other("the agent does not read what it is sent")),
    };
    // Before the writer is stopped: a request that is sent meanwhile finds its session over, and does not wait for a response.
    for session in connection.sessions.into_values() {
        session.pending.end(session.node);
        context.send(EngineInput::event(Event::SessionClosed(session.id))).await;
    }
    writer_task.abort();
    outcome
}

/// Completes when the certificate that was shown is revoked for one of the nodes that sessions were opened for, or for the one that
/// it names.
async fn until_revoked(
    context: &ListenContext,
    certificate_shown: watch::Receiver<Option<Peer>>,
    nodes: Arc<Mutex<BTreeSet<NodeId>>>,
) -> io::Error {
    let (Some(mut revocations), Some(state)) = (context.revocations(), context.state()) else {
        return std::future::pending().await;
    };
    loop {
        revocations.changed().await;
        let Some(peer) = certificate_shown.borrow().clone() else { continue };
        let view = state.view();
        let joins = view.store.acl().joins();
        let mut spoken_for: Vec<NodeId> =
            peer.identity.nodes().filter_map(|node| node.parse().ok()).collect();
        spoken_for.extend(nodes.lock().unwrap_or_else(PoisonError::into_inner).iter());
        if let Some(node) = spoken_for.into_iter().find(|node| is_revoked(joins, *node, &peer)) {
            return io::Error::other(format!("node {node} was revoked"));
        }
    }
}

struct OpenSession {
    id: SessionId,
    node: NodeId,
    pending: SessionRequests,
}

struct AgentConnection<'a> {
    context: &'a Arc<ListenContext>,
    outbound: Outbound,
    peer: SocketAddr,
    certificate_shown: PeerCertificate,
    /// The nodes that sessions were opened for. A revocation of one of them ends the connection.
    nodes: Arc<Mutex<BTreeSet<NodeId>>>,
    sessions: HashMap<u32, OpenSession>,
}

impl AgentConnection<'_> {
    async fn read<R: AsyncRead + Unpin>(&mut self, mut frames: FrameReader<R>) -> io::Result<()> {
        while let Some((frame, share)) = frames.next().await? {
            self.on_frame(frame, share).await?;
            if !self.sessions.is_empty() {
                frames.welcomed();
            }
            // No more is read from a peer that does not read its responses.
            self.outbound.room().await;
        }
        Ok(())
    }

    async fn on_frame(&mut self, frame: UpFrame, share: BudgetShare) -> io::Result<()> {
        let number = frame.session;
        match frame.message {
            Some(Up::Hello(hello)) => return self.open(number, hello, share).await,
            Some(Up::Update(update)) => return self.update(number, update, share).await,
            Some(Up::Heartbeat(heartbeat)) => self.heartbeat(number, &heartbeat).await,
            Some(Up::FileChunk(chunk)) => self.with(number, |pending| pending.files.on_chunk(&chunk)),
            Some(Up::Answer(answer)) => self.with(number, |pending| pending.asks.on_answer(answer)),
            Some(Up::Exec(reported)) => self.with(number, |pending| pending.execs.on_event(reported)),
            Some(Up::Leaving(request)) => {
                if let Some(session) = self.sessions.get(&number) {
                    let by = AuditCaller {
                        address: self.peer.to_string(),
                        certificate: self
                            .certificate_shown
                            .peer()
                            .map(|peer| cut(&peer.identity.to_string()))
                            .unwrap_or_default(),
                        ..AuditCaller::default()
                    };
                    leaving::drain(self.context, session.node, by, &request);
                }
            }
            Some(Up::Changed(changed)) => return self.node_changed(number, changed, share).await,
            Some(Up::Sign(request)) => return self.sign(number, &request).await,
            Some(Up::Secrets(request)) => return self.read_secrets(number, request).await,
            Some(Up::Watch(request)) => return self.watch(number, request).await,
            Some(Up::TaskApi(message)) => self.task_api(number, message).await,
            Some(Up::Renewed(renewed)) => self.on_renewed(&renewed),
            // Of a newer protocol: an agent says nothing that must be understood before it was welcomed to say it.
            None => {}
        }
        Ok(())
    }

    fn with(&self, number: u32, visit: impl FnOnce(&SessionRequests)) {
        if let Some(session) = self.sessions.get(&number) {
            visit(&session.pending);
        }
    }

    async fn open(
        &mut self,
        number: u32,
        hello: berth_api::agent::Hello,
        mut share: BudgetShare,
    ) -> io::Result<()> {
        if hello.protocol_version != PROTOCOL_VERSION {
            let reason = format!(
                "agent speaks protocol {}, this server speaks {PROTOCOL_VERSION}: use the same version of berth",
                hello.protocol_version
            );
            return self.refuse(number, reason).await;
        }
        // One that is open may begin again.
        if self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(&number) {
            return self.refuse(number, format!("{SESSIONS_MAX} sessions are open on this connection")).await;
        }
        if let Err(reason) = self.context.may_begin_a_session(self.peer.ip()).await {
            let refused = frame(number, Down::Refused(SessionRefused { reason, retry: true }));
            return self.outbound.send(refused).await.map_err(|_| io::ErrorKind::BrokenPipe.into());
        }
        let bytes = convert::memory_bytes(&hello.node);
        let mut hello = match convert::hello(hello) {
            Ok(hello) => hello,
            Err(reason) => return self.refuse(number, reason).await,
        };
        if let Some(Peer { identity, .. }) = self.certificate_shown.peer()
            && !identity.speaks_for(&hello.node_id().to_string())
        {
            let reason = format!(
                "the certificate shown names {identity}: it does not speak for node {}",
                hello.node_id()
            );
            return self.refuse(number, reason).await;
        }
        if let Some(reason) = self.check_revocation(hello.node_id()) {
            return self.refuse(number, reason).await;
        }
        let stored_bytes = self.context.stored.memory_bytes(hello.node_id());
        self.context.incoming.decode(&mut share, bytes + stored_bytes).await?;
        hello.checkpoint = self.stored_checkpoint(hello.node_id()).await;
        let id = self.context.next_session();
        let (node, pending) = (hello.node_id(), SessionRequests::default());
        let link = SessionLink { node, number, outbound: self.outbound.clone(), pending: pending.clone() };
        let link = Box::new(link);
        if let Some(old) = self.sessions.insert(number, OpenSession { id, node, pending }) {
            old.pending.end(old.node);
            self.context.send(EngineInput::event(Event::SessionClosed(old.id))).await;
        }
        self.context.send(EngineInput::Open { session: id, hello: Box::new(hello), link, share }).await;
        Ok(())
    }

    /// What was kept of a node before this server was started.
    async fn stored_checkpoint(&self, node: NodeId) -> Option<Box<NodeCheckpoint>> {
        let stored = self.context.stored.clone();
        if stored.memory_bytes(node) == 0 {
            return None;
        }
        tokio::task::spawn_blocking(move || stored.read(node)).await.ok().flatten().map(Box::new)
    }

    /// Why a session for a node is refused, if its certificates were revoked. From here on that ends the connection.
    fn check_revocation(&self, node: NodeId) -> Option<String> {
        let (peer, state) = (self.certificate_shown.peer()?, self.context.state()?);
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
        is_revoked(state.view().store.acl().joins(), node, &peer).then(|| {
            format!("node {node} was revoked: to let it join again, make a token with `berth node token -node {node}`")
        })
    }

    /// The agent shows its new certificate. What it may do is judged again, a revocation that came meanwhile included.
    fn on_renewed(&mut self, renewed: &Renewed) {
        let Some(secure) = self.context.secure() else { return };
        let nodes = self.sessions.values().map(|session| session.node);
        let peer = self.peer;
        match self.certificate_shown.on_renewed(renewed, nodes, secure) {
            Ok(()) => tracing::debug!(%peer, "an agent has shown its new certificate"),
            Err(why) => tracing::warn!(
                %peer,
                why,
                "an agent's new certificate does not count: its connection ends with the one before"
            ),
        }
    }

    async fn refuse(&self, number: u32, reason: String) -> io::Result<()> {
        let refused = frame(number, Down::Refused(SessionRefused { reason, retry: false }));
        self.outbound.send(refused).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn heartbeat(&self, number: u32, heartbeat: &Heartbeat) {
        let Some(session) = self.sessions.get(&number) else { return };
        let heartbeat = convert::heartbeat(heartbeat);
        self.context.send(EngineInput::event(Event::Heartbeat(session.id, heartbeat))).await;
    }

    async fn node_changed(
        &self,
        number: u32,
        changed: NodeChanged,
        mut share: BudgetShare,
    ) -> io::Result<()> {
        let Some(session) = self.sessions.get(&number) else { return Ok(()) };
        let bytes = convert::memory_bytes(&changed.node);
        let node = match convert::node_changed(session.node, changed) {
            Ok(node) => node,
            Err(reason) => return self.refuse(number, reason).await,
        };
        self.context.incoming.decode(&mut share, bytes).await?;
        self.context.send(EngineInput::Event(Event::NodeChanged(session.id, Box::new(node)), share)).await;
        Ok(())
    }

    /// Signs tokens on this task: the few of one task take less time than handing them to another thread would, and no further frame
    /// of the agent is read meanwhile.
    async fn sign(&self, number: u32, request: &SignTokens) -> io::Result<()> {
        let (Some(session), Some(state)) = (self.sessions.get(&number), self.context.state()) else {
            return Ok(());
        };
        let response = match self.context.rates.for_tokens(session.node) {
            Ok(()) => workload::sign(state, session.node, request),
            Err(RateExceeded) => workload::too_often(request),
        };
        let signed = frame(number, Down::Signed(response));
        self.outbound.send(signed).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends a task's secrets, from a task of its own: they are sent once their audit record is on disk, and other frames of the agent
    /// must not wait for that.
    async fn read_secrets(&self, number: u32, requested: ReadSecrets) -> io::Result<()> {
        let (Some(session), Some(state)) = (self.sessions.get(&number), self.context.state()) else {
            return Ok(());
        };
        let (node, request) = (session.node, requested.request);
        let permit = self.context.rates.for_secrets(node).ok();
        let Some(permit) = permit.and_then(|()| self.context.secrets.clone().try_acquire_owned().ok()) else {
            let refused = frame(number, Down::Secrets(secrets::too_often(request)));
            return self.outbound.send(refused).await.map_err(|_| io::ErrorKind::BrokenPipe.into());
        };
        let (by, state) = (self.by(node), state.clone());
        let outbound = self.outbound.clone();
        tokio::spawn(async move {
            let response = secrets::read(&state, by, requested).await;
            let _ = outbound.send(frame(number, Down::Secrets(response))).await;
            drop(permit);
        });
        Ok(())
    }

    /// Answers once a variable that templates of a task show has changed.
    async fn watch(&self, number: u32, request: WatchVariables) -> io::Result<()> {
        let (Some(session), Some(state)) = (self.sessions.get(&number), self.context.state()) else {
            return Ok(());
        };
        let (context, outbound) = (self.context.clone(), self.outbound.clone());
        let watcher = Watcher { context, by: self.by(session.node), number, outbound };
        match session.pending.watches.begin(watcher, state.clone(), request) {
            Ok(()) => Ok(()),
            Err(refused) => {
                let refused = frame(number, Down::Watched(refused));
                self.outbound.send(refused).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    /// The caller of a session, for the audit log.
    fn by(&self, node: NodeId) -> SecretsCaller {
        let certificate = self.certificate_shown.peer().map(|peer| peer.identity.to_string());
        SecretsCaller { node, peer: self.peer, certificate, received_at: Instant::now() }
    }

    async fn task_api(&self, number: u32, message: TaskApi) {
        let Some(session) = self.sessions.get(&number) else { return };
        let Self { context, outbound, peer, .. } = self;
        let carrier = TaskApiSession { context, node: session.node, peer: *peer, number, outbound };
        session.pending.task_apis.on_message(&carrier, message).await;
    }

    async fn update(&self, number: u32, update: Update, mut share: BudgetShare) -> io::Result<()> {
        let Some(session) = self.sessions.get(&number) else { return Ok(()) };
        if update.allocs.len() > UPDATE_ALLOCS_MAX {
            let (found, max) = (update.allocs.len(), UPDATE_ALLOCS_MAX);
            return Err(io::Error::other(format!(
                "an update of {found} allocations is over the limit of {max}"
            )));
        }
        let mut bytes = 0;
        for encoded in &update.allocs {
            bytes += outline::memory_bytes(encoded)?;
        }
        self.context.incoming.decode(&mut share, bytes).await?;
        let mut allocs = Vec::with_capacity(update.allocs.len());
        for encoded in &update.allocs {
            let status = AllocStatus::decode(encoded.clone()).map_err(io::Error::other)?;
            allocs.push(Arc::new(convert::observed(status, encoded).map_err(io::Error::other)?));
        }
        let Update { seq, desired_seq, resync_done, .. } = update;
        let event = Event::Observed { session: session.id, seq, desired_seq, allocs, resync_done };
        self.context.send(EngineInput::Event(event, share)).await;
        Ok(())
    }
}

/// Writes the frames of all sessions; those that have gathered during a write go out together in the next one.
async fn write<W: AsyncWrite + Unpin>(mut writer: W, mut messages: OutboundReader) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    while let Some(message) = messages.next().await {
        buffer.extend_from_slice(&message);
        while buffer.len() < WRITE_BYTES {
            let Some(message) = messages.try_next() else { break };
            buffer.extend_from_slice(&message);
        }
        // An encrypted stream may keep the last bytes until it is flushed.
        let write = async {
            writer.write_all(&buffer).await?;
            writer.flush().await
        };
        let outcome = tokio::time::timeout(WRITE_TIMEOUT, write).await;
        outcome.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        messages.written(buffer.len());
        buffer.clear();
        if buffer.capacity() > 4 * WRITE_BYTES {
            buffer = BytesMut::new();
        }
    }
    Ok(())
}

//! Accepts agents' connections.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_controller::SessionId;
use crossbeam_channel::Sender;
use futures_util::FutureExt;
use tokio::{
    io::Interest,
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    connection, enroll,
    incoming::Budget,
    limits::AgentLimits,
    outbound::AllInFlight,
    queue::{AddressQueues, QUEUE_WAIT_MAX, QueuePermit, StartRate},
    rates::AgentRates,
    revoked::Revocations,
    slots::{AgentSlots, PendingSlot, too_many},
};
use crate::{
    checkpoint::StoredNodes,
    engine::EngineInput,
    net::{Foreign, NetStream, OwnPort, PortAcceptor, Secure},
    shared::State,
};

/// How long what was sent may stay unacknowledged by the peer's kernel: a link that swallows one direction shows here.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);
/// Nodes at a time whose agents shut down and that are being drained for it.
pub(super) const LEAVING_MAX: usize = 1_024;
/// Connections of the tasks of all nodes to the HTTP API.
const TASK_APIS_MAX: usize = 4_096;
/// Tasks of all nodes whose templates wait for changes.
const WATCHES_MAX: usize = 100_000;
/// Answers to watches of variables that are made at a time, and kept in memory until they are sent: one change may concern
/// thousands of tasks. Starts of tasks do not wait for these.
const VARIABLE_READS_MAX: usize = 64;
/// Requests for secrets of tasks that are answered at a time.
const SECRETS_READ_MAX: usize = 256;
/// How long a session waits for its turn: its hello takes memory meanwhile, and an agent that is refused tries again soon.
const BEGIN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Waited after a failed accept: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every connection needs.
pub(crate) struct ListenContext {
    inputs: Sender<EngineInput>,
    /// Bytes on their way to agents.
    pub in_flight: AllInFlight,
    /// Bytes of frames that are being read.
    pub incoming: Budget,
    sessions: AtomicU64,
    /// Where connections wait for their turn, and sessions.
    connections_queue: AddressQueues,
    sessions_queue: AddressQueues,
    limits: AgentLimits,
    /// Rate limits of agents' expensive requests.
    pub rates: AgentRates,
    /// Permits for drains that agents have requested.
    pub leaving: Arc<Semaphore>,
    /// Permits for requests for secrets that are being answered.
    pub(super) secrets: Arc<Semaphore>,
    /// Permits for tasks whose templates wait.
    pub(super) watches: Arc<Semaphore>,
    /// Permits for watches that are being answered.
    pub(super) variable_reads: Arc<Semaphore>,
    /// None where agents cannot change the state, as in some tests.
    state: OnceLock<State>,
    /// Tells when nodes are revoked, where they have certificates.
    revocations: Option<Revocations>,
    secure: Option<Arc<Secure>>,
    /// What was kept of nodes before the server was started.
    pub(super) stored: Arc<StoredNodes>,
    /// Where connections of tasks to the HTTP API go in; none where nobody serves them.
    task_api_sender: Option<mpsc::Sender<NetStream>>,
    /// Permits for connections of tasks to the HTTP API.
    pub(super) task_apis: Arc<Semaphore>,
}

impl ListenContext {
    pub fn new(inputs: Sender<EngineInput>) -> Self {
        let (in_flight, incoming) = (AllInFlight::default(), Budget::default());
        let (leaving, state) = (Arc::new(Semaphore::new(LEAVING_MAX)), OnceLock::new());
        let (sessions, rates) = (AtomicU64::new(0), AgentRates::default());
        let task_apis = Arc::new(Semaphore::new(TASK_APIS_MAX));
        let secrets = Arc::new(Semaphore::new(SECRETS_READ_MAX));
        let watches = Arc::new(Semaphore::new(WATCHES_MAX));
        let variable_reads = Arc::new(Semaphore::new(VARIABLE_READS_MAX));
        Self {
            inputs,
            in_flight,
            incoming,
            sessions,
            connections_queue: AddressQueues::default(),
            sessions_queue: AddressQueues::default(),
            limits: AgentLimits::default(),
            rates,
            leaving,
            secrets,
            watches,
            variable_reads,
            state,
            revocations: None,
            secure: None,
            stored: Arc::default(),
            task_api_sender: None,
            task_apis,
        }
    }

    /// The same with these limits.
    pub fn with_limits(self, limits: AgentLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same, for agents whose requests change the state.
    pub fn with_state(self, state: State) -> Self {
        let _ = self.state.set(state);
        self
    }

    /// The same, for agents that show certificates. There must be a state already.
    pub fn with_certificates(self, secure: Option<Arc<Secure>>) -> Self {
        let revocations = secure.as_ref().and(self.state()).map(Revocations::follow);
        Self { secure, revocations, ..self }
    }

    /// The same, with what was kept of nodes.
    pub fn with_stored(self, stored: Arc<StoredNodes>) -> Self {
        Self { stored, ..self }
    }

    /// The same, for agents whose tasks speak to the HTTP API.
    pub fn with_task_api_sender(self, sender: mpsc::Sender<NetStream>) -> Self {
        Self { task_api_sender: Some(sender), ..self }
    }

    /// Where connections of tasks to the HTTP API go in.
    pub(super) fn task_api_sender(&self) -> Option<&mpsc::Sender<NetStream>> {
        self.task_api_sender.as_ref()
    }

    /// The server's own certificates.
    pub fn secure(&self) -> Option<&Arc<Secure>> {
        self.secure.as_ref()
    }

    /// Tells when nodes are revoked from now on, where they have certificates.
    pub(super) fn revocations(&self) -> Option<Revocations> {
        self.revocations.as_ref().map(Revocations::since_now)
    }

    /// What the server knows, and the way to change it.
    pub fn state(&self) -> Option<&State> {
        self.state.get()
    }

    /// Waits until an address may begin another session.
    ///
    /// # Errors
    /// Why not, where that takes too long.
    pub(super) async fn may_begin_a_session(&self, address: IpAddr) -> Result<(), String> {
        let per_second = self.limits.begun_a_second;
        let rate = StartRate { per_second, begin: || self.rates.for_a_session(address, per_second) };
        let begins = timeout(BEGIN_WAIT_MAX, self.sessions_queue.begin(address, rate));
        begins.await.map_err(|_| self.too_slow("sessions", BEGIN_WAIT_MAX))
    }

    /// Waits until it is the turn of a connection to be taken in; none for one that hangs up before. Many agents that come back at
    /// once are not refused: whoever is refused comes again after a pause that grows.
    ///
    /// # Errors
    /// Why not, where that takes too long.
    async fn turn(&self, stream: &TcpStream, address: IpAddr) -> Result<Option<QueuePermit>, String> {
        let per_second = self.limits.begun_a_second;
        let rate = StartRate { per_second, begin: || self.rates.for_a_connection(address, per_second) };
        let turn = self.connections_queue.turn(address, rate, || has_hung_up(stream));
        timeout(QUEUE_WAIT_MAX, turn).await.map_err(|_| self.too_slow("connections", QUEUE_WAIT_MAX))
    }

    fn too_slow(&self, what: &str, waited: Duration) -> String {
        let (most, waited) = (self.limits.begun_a_second, waited.as_secs());
        let what = format!(
            "{what} of its address are begun: it has waited in line for {waited} s, of which {most} may begin a second"
        );
        too_many(&what, RATE_SETTING)
    }

    /// An id that no session of this process had before.
    pub fn next_session(&self) -> SessionId {
        SessionId(self.sessions.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends an input to the controller. Waits while its queue is full, without delaying other connections.
    pub async fn send(&self, input: EngineInput) {
        if let Err(error) = self.inputs.try_send(input) {
            let (inputs, input) = (self.inputs.clone(), error.into_inner());
            let _ = tokio::task::spawn_blocking(move || inputs.send(input).ok()).await;
        }
    }
}

/// Serves agents until `stop` says so.
pub(crate) async fn listen(
    listener: TcpListener,
    entrance: PortAcceptor,
    context: Arc<ListenContext>,
    mut stop: watch::Receiver<bool>,
) {
    let mut ports = OpenPorts::new(entrance, context.limits);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        while ports.connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => ports.open(stream, peer, &context),
            Err(error) => {
                tracing::warn!(%error, "could not accept an agent's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    ports.connections.shutdown().await;
}

/// The setting that raises the limit.
const RATE_SETTING: &str = "agent-rate-address";

/// The open connections.
struct OpenPorts {
    entrance: PortAcceptor,
    slots: Arc<AgentSlots>,
    connections: JoinSet<()>,
}

impl OpenPorts {
    fn new(entrance: PortAcceptor, limits: AgentLimits) -> Self {
        Self { entrance, slots: Arc::new(AgentSlots::new(limits)), connections: JoinSet::new() }
    }

    /// Serves a connection, unless there are too many, in all or of its address.
    fn open(&mut self, stream: TcpStream, peer: SocketAddr, context: &Arc<ListenContext>) {
        let waiting = match self.slots.connect(peer.ip()) {
            Ok(waiting) => waiting,
            Err(reason) => return self.slots.refused.log(peer, &reason),
        };
        let (context, entrance, slots) = (context.clone(), self.entrance.clone(), self.slots.clone());
        self.connections.spawn(async move {
            if let Err(error) = serve(stream, peer, &entrance, waiting, &slots, &context).await {
                tracing::debug!(%peer, %error, "agent connection ended");
            }
        });
    }
}

/// The future of a connection that waits for its turn is as large as its largest part, and there may be as many as there are slots:
/// the parts that run after that, which are large, are boxed.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    entrance: &PortAcceptor,
    mut waiting: PendingSlot,
    slots: &AgentSlots,
    context: &Arc<ListenContext>,
) -> io::Result<()> {
    // Agents speak first: a connection that has sent nothing gets no turn, so that others do not wait behind it.
    let foreign = waiting.unless_evicted(Foreign::of(&stream, entrance.is_encrypted())).await??;
    waiting.on_input();
    if let Some(foreign) = foreign {
        slots.refused.log(peer, foreign.reason());
        waiting.unless_evicted(Box::pin(foreign.answer(OwnPort::Agents, stream))).await?;
        return Ok(());
    }
    let turn = match waiting.unless_evicted(context.turn(&stream, peer.ip())).await? {
        Ok(Some(turn)) => turn,
        Ok(None) => return Err(io::Error::other("it hung up while it waited")),
        Err(reason) => {
            slots.refused.log(peer, &reason);
            return Ok(());
        }
    };
    let stream = waiting.unless_evicted(Box::pin(entrance.enter(stream, peer))).await??;
    drop(turn);
    let _slot = match slots.accept(peer.ip()) {
        Ok(slot) => slot,
        Err(reason) => {
            slots.refused.log(peer, &reason);
            return Ok(());
        }
    };
    drop(waiting);
    if stream.enrolls() {
        return Box::pin(enroll::serve(stream, context)).await;
    }
    stream.set_nodelay()?;
    stream.set_unacknowledged_max(UNACKNOWLEDGED_MAX)?;
    let certificate = stream.certificate().cloned();
    let (reader, writer) = tokio::io::split(stream);
    Box::pin(connection::serve(reader, writer, certificate, peer, context)).await
}

/// Whether the other side has closed a connection, though what it sent before may not be read yet.
fn has_hung_up(stream: &TcpStream) -> bool {
    stream
        .ready(Interest::READABLE)
        .now_or_never()
        .is_some_and(|ready| !ready.is_ok_and(|is| !is.is_read_closed()))
}

#[cfg(test)]
mod tests;

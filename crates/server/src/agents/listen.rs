//! Takes agents' connections in.

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
    asked::Asked,
    connection, enroll,
    incoming::Budget,
    limits::AgentLimits,
    line::{LINE_MAX, Lines, Pace, Turn},
    outbound::AllInFlight,
    revoked::Revocations,
    rooms::{Rooms, Waiting, too_many},
};
use crate::{
    checkpoint::KeptNodes,
    engine::Input,
    net::{Entrance, Foreign, OwnPort, Secure, Stream},
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
/// What templates of tasks show is looked up for so many at a time, and kept in memory until it is on its way: a change may concern
/// thousands. Starts do not wait for that.
const LOOKS_MAX: usize = 64;
/// Requests for secrets of tasks that are answered at a time.
const SECRETS_READ_MAX: usize = 256;
/// How long a session waits for its turn: what its agent has said of itself takes room meanwhile, and a refusal is heard, and tried
/// again soon.
const BEGIN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Whose port this is.
const PORT: OwnPort = OwnPort::Agents;
/// Waited after a failed accept: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every connection needs.
pub(crate) struct Context {
    inputs: Sender<Input>,
    /// Bytes on their way to agents.
    pub in_flight: AllInFlight,
    /// Bytes of frames that are being read.
    pub incoming: Budget,
    sessions: AtomicU64,
    /// Where connections wait for their turn, and sessions.
    connections_line: Lines,
    sessions_line: Lines,
    limits: AgentLimits,
    /// How often agents have asked for what costs work.
    pub asked: Asked,
    /// What agents ask that changes the state, at a time.
    pub leaving: Arc<Semaphore>,
    /// Those for secrets of tasks, at a time.
    pub(super) secrets: Arc<Semaphore>,
    /// Room for tasks whose templates wait.
    pub(super) watches: Arc<Semaphore>,
    /// Those of them that are answered, at a time.
    pub(super) looks: Arc<Semaphore>,
    /// Once the server has one.
    state: OnceLock<State>,
    /// Tells when nodes are revoked, where they have certificates.
    revocations: Option<Revocations>,
    secure: Option<Arc<Secure>>,
    /// What was kept of nodes before the server was started.
    pub(super) kept: Arc<KeptNodes>,
    /// Where connections of tasks to the HTTP API go in; none where nobody serves them.
    task_door: Option<mpsc::Sender<Stream>>,
    /// Those that there may be more.
    pub(super) task_apis: Arc<Semaphore>,
}

impl Context {
    pub fn new(inputs: Sender<Input>) -> Self {
        let (in_flight, incoming) = (AllInFlight::default(), Budget::default());
        let (leaving, state) = (Arc::new(Semaphore::new(LEAVING_MAX)), OnceLock::new());
        let (sessions, asked) = (AtomicU64::new(0), Asked::default());
        let task_apis = Arc::new(Semaphore::new(TASK_APIS_MAX));
        let secrets = Arc::new(Semaphore::new(SECRETS_READ_MAX));
        let watches = Arc::new(Semaphore::new(WATCHES_MAX));
        let looks = Arc::new(Semaphore::new(LOOKS_MAX));
        Self {
            inputs,
            in_flight,
            incoming,
            sessions,
            connections_line: Lines::default(),
            sessions_line: Lines::default(),
            limits: AgentLimits::default(),
            asked,
            leaving,
            secrets,
            watches,
            looks,
            state,
            revocations: None,
            secure: None,
            kept: Arc::default(),
            task_door: None,
            task_apis,
        }
    }

    /// The same with these limits.
    pub fn with_limits(self, limits: AgentLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same, for agents that ask for changes of the state.
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
    pub fn with_kept(self, kept: Arc<KeptNodes>) -> Self {
        Self { kept, ..self }
    }

    /// The same, for agents whose tasks speak to the HTTP API.
    pub fn with_task_door(self, door: mpsc::Sender<Stream>) -> Self {
        Self { task_door: Some(door), ..self }
    }

    /// Where connections of tasks to the HTTP API go in.
    pub(super) fn task_door(&self) -> Option<&mpsc::Sender<Stream>> {
        self.task_door.as_ref()
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
        let pace = Pace { per_second, begin: || self.asked.for_a_session(address, per_second) };
        let begins = timeout(BEGIN_WAIT_MAX, self.sessions_line.begin(address, pace));
        begins.await.map_err(|_| self.too_slow("sessions", BEGIN_WAIT_MAX))
    }

    /// Waits until it is the turn of a connection to be taken in; none for one that hangs up before. Many agents that come back at
    /// once are not refused: whoever is refused comes again after a pause that grows.
    ///
    /// # Errors
    /// Why not, where that takes too long.
    async fn turn(&self, stream: &TcpStream, address: IpAddr) -> Result<Option<Turn>, String> {
        let per_second = self.limits.begun_a_second;
        let pace = Pace { per_second, begin: || self.asked.for_a_connection(address, per_second) };
        let turn = self.connections_line.turn(address, pace, || has_hung_up(stream));
        timeout(LINE_MAX, turn).await.map_err(|_| self.too_slow("connections", LINE_MAX))
    }

    fn too_slow(&self, what: &str, waited: Duration) -> String {
        let (most, waited) = (self.limits.begun_a_second, waited.as_secs());
        let what = format!(
            "{what} of its address are begun: it has waited in line for {waited} s, of which {most} may begin a second"
        );
        too_many(&what, RATE_SETTING)
    }

    /// A name that no session had before.
    pub fn next_session(&self) -> SessionId {
        SessionId(self.sessions.fetch_add(1, Ordering::Relaxed))
    }

    /// Tells the controller something, waiting for room without holding up other connections.
    pub async fn tell(&self, input: Input) {
        if let Err(error) = self.inputs.try_send(input) {
            let (inputs, input) = (self.inputs.clone(), error.into_inner());
            let _ = tokio::task::spawn_blocking(move || inputs.send(input).ok()).await;
        }
    }
}

/// Serves agents until `stop` says so.
pub(crate) async fn listen(
    listener: TcpListener,
    entrance: Entrance,
    context: Arc<Context>,
    mut stop: watch::Receiver<bool>,
) {
    let mut doors = Doors::new(entrance, context.limits);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        while doors.connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => doors.open(stream, peer, &context),
            Err(error) => {
                tracing::warn!(%error, "accept an agent's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    doors.connections.shutdown().await;
}

/// The setting that raises the limit.
const RATE_SETTING: &str = "agent-rate-address";

/// The open connections.
struct Doors {
    entrance: Entrance,
    rooms: Arc<Rooms>,
    connections: JoinSet<()>,
}

impl Doors {
    fn new(entrance: Entrance, limits: AgentLimits) -> Self {
        Self { entrance, rooms: Arc::new(Rooms::new(limits)), connections: JoinSet::new() }
    }

    /// Serves a connection, unless there are too many, in all or of its address.
    fn open(&mut self, stream: TcpStream, peer: SocketAddr, context: &Arc<Context>) {
        let waiting = match self.rooms.wait(peer.ip()) {
            Ok(waiting) => waiting,
            Err(reason) => return self.rooms.turned_away.tell(peer, &reason),
        };
        let (context, entrance, rooms) = (context.clone(), self.entrance.clone(), self.rooms.clone());
        self.connections.spawn(async move {
            if let Err(error) = serve(stream, peer, &entrance, waiting, &rooms, &context).await {
                tracing::debug!(%peer, %error, "agent connection ended");
            }
        });
    }
}

/// What a connection takes until its turn is in its future, and so bounded by the room for those that wait: what comes then is
/// boxed.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    entrance: &Entrance,
    mut waiting: Waiting,
    rooms: &Rooms,
    context: &Arc<Context>,
) -> io::Result<()> {
    // It is agents who speak first: until then a connection has no turn, and nobody waits for it.
    let opening = waiting.unless_it_must_go(PORT.opening(&stream)).await??;
    waiting.heard();
    if let Some(foreign) = Foreign::recognize(&opening, entrance.is_encrypted()) {
        rooms.turned_away.tell(peer, &PORT.refusal(foreign));
        waiting.unless_it_must_go(Box::pin(PORT.answer(foreign, stream))).await?;
        return Ok(());
    }
    let turn = match waiting.unless_it_must_go(context.turn(&stream, peer.ip())).await? {
        Ok(Some(turn)) => turn,
        Ok(None) => return Err(io::Error::other("it hung up while it waited")),
        Err(reason) => {
            rooms.turned_away.tell(peer, &reason);
            return Ok(());
        }
    };
    let stream = waiting.unless_it_must_go(Box::pin(entrance.enter(stream, peer))).await??;
    drop(turn);
    let _place = match rooms.admit(peer.ip()) {
        Ok(place) => place,
        Err(reason) => {
            rooms.turned_away.tell(peer, &reason);
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

/// Whether the other side has closed a connection, though what it said before may not be read yet.
fn has_hung_up(stream: &TcpStream) -> bool {
    stream
        .ready(Interest::READABLE)
        .now_or_never()
        .is_some_and(|ready| !ready.is_ok_and(|is| !is.is_read_closed()))
}

#[cfg(test)]
mod tests;

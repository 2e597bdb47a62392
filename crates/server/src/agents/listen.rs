//! Takes agents' connections in.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_controller::SessionId;
use crossbeam_channel::Sender;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::JoinSet,
    time::Instant,
};

use super::{
    asked::Asked, connection, enroll, incoming::Budget, limits::AgentLimits, outbound::AllInFlight,
    revoked::Revocations,
};
use crate::{
    engine::Input,
    net::{Counted, Entrance, PerAddress, Secure, Share, Stream, TooOften},
    state::State,
};

/// How long what was sent may stay unacknowledged by the peer's kernel: a link that swallows one direction shows here.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);
/// Nodes at a time whose agents shut down and that are being drained for it.
pub(super) const LEAVING_MAX: usize = 1_024;
/// Connections of the tasks of all nodes to the HTTP API.
const TASK_APIS_MAX: usize = 4_096;
/// Requests for secrets of tasks that are answered at a time.
const SECRETS_READ_MAX: usize = 256;
/// Between two lines that tell of connections that were turned away: strangers fill no disk.
const TURNED_AWAY_EVERY: Duration = Duration::from_secs(1);
/// How long an agent waits whose address begins connections or sessions faster than it may, before it is refused.
const BEGIN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Between two attempts meanwhile.
const BEGIN_WAIT: Duration = Duration::from_millis(100);
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
    limits: AgentLimits,
    /// How often agents have asked for what costs work.
    pub asked: Asked,
    /// What agents ask that changes the state, at a time.
    pub leaving: Arc<Semaphore>,
    /// Those for secrets of tasks, at a time.
    pub(super) secrets: Arc<Semaphore>,
    /// Once the server has one.
    state: OnceLock<State>,
    /// Tells when nodes are revoked, where they have certificates.
    revocations: Option<Revocations>,
    secure: Option<Arc<Secure>>,
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
        Self {
            inputs,
            in_flight,
            incoming,
            sessions,
            limits: AgentLimits::default(),
            asked,
            leaving,
            secrets,
            state,
            revocations: None,
            secure: None,
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
        self.may_begin("sessions", || self.asked.for_a_session(address, per_second)).await
    }

    /// The same of a connection.
    async fn may_begin_a_connection(&self, address: IpAddr) -> Result<(), String> {
        let per_second = self.limits.begun_a_second;
        self.may_begin("connections", || self.asked.for_a_connection(address, per_second)).await
    }

    /// Many agents that come back at once are not refused, they are let in one after the other: whoever is refused comes again
    /// after a pause that grows.
    async fn may_begin(&self, what: &str, take: impl Fn() -> Result<(), TooOften>) -> Result<(), String> {
        let deadline = Instant::now() + BEGIN_WAIT_MAX;
        while let Err(TooOften) = take() {
            if Instant::now() >= deadline {
                let most = self.limits.begun_a_second;
                let what = format!("{what} of its address are begun: it may begin {most} a second");
                return Err(too_many(&what, RATE_SETTING));
            }
            tokio::time::sleep(BEGIN_WAIT).await;
        }
        Ok(())
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

/// The settings that raise limits.
const MAX_SETTING: &str = "agent-connections-max";
const ADDRESS_SETTING: &str = "agent-connections-address";
const RATE_SETTING: &str = "agent-rate-address";

/// Says that something is too much, and what to do.
fn too_many(what: &str, setting: &str) -> String {
    format!("too many {what}; have the operator raise --{setting}")
}

/// Tells of connections that were turned away, all of a second in one line.
#[derive(Default)]
struct TurnedAway(Mutex<Told>);

#[derive(Default)]
struct Told {
    at: Option<Instant>,
    untold: u64,
}

impl TurnedAway {
    fn tell(&self, peer: SocketAddr, reason: &str) {
        let now = Instant::now();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.at.is_some_and(|at| now < at + TURNED_AWAY_EVERY) {
            told.untold += 1;
            return;
        }
        let others = std::mem::take(&mut told.untold);
        told.at = Some(now);
        tracing::warn!(%peer, others, "turned an agent away: {reason}");
    }
}

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

/// How many connections there may be. Those who have yet to show who they are have a room of their own: however many strangers
/// come, the agents that are there, and as many as there may be, have their places.
struct Rooms {
    limits: AgentLimits,
    turned_away: TurnedAway,
    waiting: Room,
    inside: Room,
}

impl Rooms {
    fn new(limits: AgentLimits) -> Self {
        let (waiting, inside) = (Room::new(limits.waiting_max()), Room::new(limits.connections_max));
        Self { limits, turned_away: TurnedAway::default(), waiting, inside }
    }

    /// A place for a connection from this address until it has come in.
    ///
    /// # Errors
    /// Why there is none.
    fn wait(&self, address: IpAddr) -> Result<Place, String> {
        let (most, share) = (self.limits.waiting_max(), self.limits.waiting_share());
        self.waiting.take(address, share).map_err(|full| match full {
            Full::All => too_many(&format!("agents: {most} connections are yet to come in"), MAX_SETTING),
            Full::Address => {
                let most = share.of(address);
                let what = format!("agents of its address: {most} connections are yet to come in");
                too_many(&what, ADDRESS_SETTING)
            }
        })
    }

    /// A place for one that has.
    ///
    /// # Errors
    /// Why there is none.
    fn admit(&self, address: IpAddr) -> Result<Place, String> {
        let AgentLimits { connections_max, connections_share, .. } = self.limits;
        self.inside.take(address, connections_share).map_err(|full| match full {
            Full::All => too_many(&format!("agents: {connections_max} connections are open"), MAX_SETTING),
            Full::Address => {
                let most = connections_share.of(address);
                let what = format!("agents of its address: it has {most} connections already");
                too_many(&what, ADDRESS_SETTING)
            }
        })
    }
}

/// So many places, of which an address has its share.
struct Room {
    places: Arc<Semaphore>,
    addresses: PerAddress,
}

/// Why a room has no place.
enum Full {
    All,
    Address,
}

impl Room {
    fn new(places: usize) -> Self {
        let places = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        Self { places, addresses: PerAddress::default() }
    }

    fn take(&self, address: IpAddr, share: Share) -> Result<Place, Full> {
        let of_all = self.places.clone().try_acquire_owned().map_err(|_| Full::All)?;
        let of_address = self.addresses.count(address, share).ok_or(Full::Address)?;
        Ok(Place { _of_all: of_all, _of_address: of_address })
    }
}

/// A connection's place among all and among those of its address, for as long as this lives.
#[derive(Debug)]
struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_address: Counted,
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    entrance: &Entrance,
    waiting: Place,
    rooms: &Rooms,
    context: &Arc<Context>,
) -> std::io::Result<()> {
    context.may_begin_a_connection(peer.ip()).await.map_err(std::io::Error::other)?;
    let stream = entrance.enter(stream, peer).await?;
    let _place = match rooms.admit(peer.ip()) {
        Ok(place) => place,
        Err(reason) => {
            rooms.turned_away.tell(peer, &reason);
            return Ok(());
        }
    };
    drop(waiting);
    if stream.enrolls() {
        return enroll::serve(stream, context).await;
    }
    stream.set_nodelay()?;
    stream.set_unacknowledged_max(UNACKNOWLEDGED_MAX)?;
    let certificate = stream.certificate().cloned();
    let (reader, writer) = tokio::io::split(stream);
    connection::serve(reader, writer, certificate, peer, context).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many places for an address as there are; why there is no other.
    fn fill(rooms: &Rooms, address: &str, places: &mut Vec<Place>) -> String {
        let address = address.parse().expect("an address");
        loop {
            match rooms.admit(address) {
                Ok(place) => places.push(place),
                Err(reason) => return reason,
            }
        }
    }

    #[test]
    fn an_address_has_its_share_of_connections_and_no_more() {
        let share = Share { per_address_max: 50, loopback_max: 70 };
        let limits = AgentLimits { connections_share: share, ..AgentLimits::default() };
        let rooms = Rooms::new(limits);
        for (address, max, other) in
            [("10.0.0.1", 50, "10.0.0.2"), ("127.0.0.1", 70, "127.0.0.2"), ("2001:db8::1", 50, "::1")]
        {
            let mut places = Vec::new();
            let reason = fill(&rooms, address, &mut places);
            let expected = format!(
                "too many agents of its address: it has {max} connections already; have the operator raise --agent-connections-address"
            );
            assert_eq!(reason, expected);
            assert_eq!(places.len(), max, "{address}");
            assert!(rooms.admit(other.parse().expect("an address")).is_ok(), "{other} has its own");
            places.pop();
            assert!(rooms.admit(address.parse().expect("an address")).is_ok(), "one has ended");
        }
    }

    #[test]
    fn there_are_so_many_connections_and_no_more() {
        let rooms = Rooms::new(AgentLimits::default());
        let mut places = Vec::new();
        let reasons: Vec<String> =
            (1..=3).map(|host| fill(&rooms, &format!("10.0.0.{host}"), &mut places)).collect();
        assert_eq!(places.len(), 16_384);
        assert!(
            reasons[0].contains("it has 12288 connections already"),
            "room is left to others: {}",
            reasons[0]
        );
        assert!(reasons[1].starts_with("too many agents: 16384 connections are open"), "{}", reasons[1]);
        assert_eq!(reasons[2], reasons[1], "and no address has one more");
        places.pop();
        assert!(rooms.admit(IpAddr::from([10, 0, 0, 9])).is_ok(), "one has ended");
    }

    #[test]
    fn strangers_take_no_places_of_agents() {
        let rooms = Rooms::new(AgentLimits::default());
        let mut waiting = Vec::new();
        let reason = loop {
            match rooms.wait(IpAddr::from([10, 0, 0, 1])) {
                Ok(place) => waiting.push(place),
                Err(reason) => break reason,
            }
        };
        assert_eq!(waiting.len(), 4_096);
        assert!(reason.starts_with("too many agents of its address: 4096 connections are yet"), "{reason}");
        assert!(rooms.wait(IpAddr::from([10, 0, 0, 2])).is_ok(), "room is left to others");
        assert!(rooms.admit(IpAddr::from([10, 0, 0, 1])).is_ok());
    }

    #[tokio::test]
    async fn an_address_that_begins_too_much_waits_and_is_refused_by_the_name_of_the_limit() {
        let (inputs, _inputs) = crossbeam_channel::bounded(1);
        let limits = AgentLimits { begun_a_second: 10, ..AgentLimits::default() };
        let context = Context::new(inputs).with_limits(limits);
        let (own, strange) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([10, 0, 0, 1]));
        for _ in 0..25 {
            assert!(context.may_begin_a_connection(strange).await.is_ok(), "it waits for its turn");
        }
        assert!(context.may_begin_a_session(strange).await.is_ok(), "sessions are counted apart");
        for _ in 0..999 {
            assert!(context.may_begin_a_connection(own).await.is_ok(), "this machine may begin any number");
        }
        let refused =
            context.may_begin("connections", || Err(TooOften)).await.expect_err("it takes too long");
        assert!(
            refused.contains("it may begin 10 a second; have the operator raise --agent-rate-address"),
            "{refused}"
        );
    }

    #[test]
    fn ten_thousand_agents_behind_one_address_have_room() {
        let AgentLimits { connections_share, begun_a_second, .. } = AgentLimits::default();
        assert!(connections_share.of(IpAddr::from([10, 0, 0, 1])) >= 10_000);
        assert!(begun_a_second * 20 >= 2 * 10_000, "each may come twice");
    }
}

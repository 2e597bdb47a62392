//! Takes agents' connections in.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, OnceLock,
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
};

use super::{
    asked::Asked, connection, enroll, incoming::Budget, outbound::AllInFlight, revoked::Revocations,
};
use crate::{
    engine::Input,
    net::{Counted, Entrance, PerAddress, Secure, Share, Stream},
    state::State,
};

/// Connections at a time; each can carry many sessions.
const CONNECTIONS_MAX: usize = 16_384;
/// Of these, how many one address may have: a host with simulated nodes, or a network behind one address, has many.
const ADDRESS_SHARE: Share = Share { per_address_max: 2_048, loopback_max: 8_192 };
/// How long what was sent may stay unacknowledged by the peer's kernel: a link that swallows one direction shows here.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);
/// Nodes at a time whose agents shut down and that are being drained for it.
pub(super) const LEAVING_MAX: usize = 1_024;
/// Connections of the tasks of all nodes to the HTTP API.
const TASK_APIS_MAX: usize = 4_096;
/// Requests for secrets of tasks that are answered at a time.
const SECRETS_READ_MAX: usize = 256;
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
    let mut doors = Doors::new(entrance);
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

/// The open connections, and how many there may be.
struct Doors {
    entrance: Entrance,
    places: Arc<Semaphore>,
    addresses: PerAddress,
    connections: JoinSet<()>,
}

impl Doors {
    fn new(entrance: Entrance) -> Self {
        Self {
            entrance,
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            addresses: PerAddress::default(),
            connections: JoinSet::new(),
        }
    }

    /// Serves a connection, unless there are too many, in all or of its address.
    fn open(&mut self, stream: TcpStream, peer: SocketAddr, context: &Arc<Context>) {
        let place = match self.admit(peer.ip()) {
            Ok(place) => place,
            Err(reason) => return tracing::warn!(%peer, "turned an agent away: {reason}"),
        };
        let (context, entrance) = (context.clone(), self.entrance.clone());
        self.connections.spawn(async move {
            if let Err(error) = serve(stream, peer, &entrance, &context).await {
                tracing::debug!(%peer, %error, "agent connection ended");
            }
            drop(place);
        });
    }

    /// A place for a connection from this address.
    ///
    /// # Errors
    /// Why there is none.
    fn admit(&self, address: IpAddr) -> Result<Place, String> {
        let of_all = self.places.clone().try_acquire_owned();
        let of_all = of_all.map_err(|_| format!("{CONNECTIONS_MAX} connections are open"))?;
        let of_address = self
            .addresses
            .count(address, ADDRESS_SHARE)
            .ok_or_else(|| format!("its address has {} connections already", ADDRESS_SHARE.of(address)))?;
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
    context: &Arc<Context>,
) -> std::io::Result<()> {
    let stream = entrance.enter(stream, peer).await?;
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
    fn fill(doors: &Doors, address: &str, places: &mut Vec<Place>) -> String {
        let address = address.parse().expect("an address");
        loop {
            match doors.admit(address) {
                Ok(place) => places.push(place),
                Err(reason) => return reason,
            }
        }
    }

    #[test]
    fn an_address_has_its_share_of_connections_and_no_more() {
        let doors = Doors::new(Entrance::open());
        for (address, max, other) in [
            ("10.0.0.1", 2_048, "10.0.0.2"),
            ("127.0.0.1", 8_192, "127.0.0.2"),
            ("2001:db8::1", 2_048, "::1"),
        ] {
            let mut places = Vec::new();
            let reason = fill(&doors, address, &mut places);
            assert_eq!(reason, format!("its address has {max} connections already"));
            assert_eq!(places.len(), max, "{address}");
            assert!(doors.admit(other.parse().expect("an address")).is_ok(), "{other} has its own");
            places.pop();
            assert!(doors.admit(address.parse().expect("an address")).is_ok(), "one has ended");
        }
    }

    #[test]
    fn there_are_so_many_connections_and_no_more() {
        let doors = Doors::new(Entrance::open());
        let mut places = Vec::new();
        let reasons: Vec<String> =
            (1..=9).map(|host| fill(&doors, &format!("10.0.0.{host}"), &mut places)).collect();
        assert_eq!(places.len(), CONNECTIONS_MAX);
        assert_eq!(reasons[7], "16384 connections are open", "eight addresses have their shares");
        assert_eq!(reasons[8], reasons[7], "and no address has one more");
        places.pop();
        assert!(doors.admit(IpAddr::from([10, 0, 0, 9])).is_ok(), "one has ended");
    }
}

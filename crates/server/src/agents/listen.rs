//! Takes agents' connections in.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_controller::SessionId;
use crossbeam_channel::Sender;
use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::{connection, incoming::Budget, outbound::AllInFlight};
use crate::engine::Input;

/// Connections at a time; each can carry many sessions.
const CONNECTIONS_MAX: usize = 16_384;
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
}

impl Context {
    pub fn new(inputs: Sender<Input>) -> Self {
        let (in_flight, incoming) = (AllInFlight::default(), Budget::default());
        Self { inputs, in_flight, incoming, sessions: AtomicU64::new(0) }
    }

    /// A name that no session had before.
    pub fn next_session(&self) -> SessionId {
        SessionId(self.sessions.fetch_add(1, Ordering::Relaxed))
    }

    /// Tells the controller something, waiting for room without holding up other connections.
    pub async fn tell(&self, input: Input) {
        if let Err(error) = self.inputs.try_send(input) {
            let (inputs, input) = (self.inputs.clone(), error.into_inner());
            let _ = tokio::task::spawn_blocking(move || inputs.send(input)).await;
        }
    }
}

/// Serves agents until `stop` says so.
pub(crate) async fn listen(listener: TcpListener, context: Arc<Context>, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => match places.clone().try_acquire_owned() {
                Ok(place) => {
                    let context = context.clone();
                    connections.spawn(async move {
                        if let Err(error) = serve(stream, &context).await {
                            tracing::debug!(%peer, %error, "agent connection ended");
                        }
                        drop(place);
                    });
                }
                Err(_) => {
                    tracing::warn!(%peer, "turned an agent away: {CONNECTIONS_MAX} connections are open")
                }
            },
            Err(error) => {
                tracing::warn!(%error, "accept an agent's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.shutdown().await;
}

/// How long what was sent may stay unacknowledged by the peer's kernel: a link that swallows one direction shows here.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);

async fn serve(stream: TcpStream, context: &Arc<Context>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    let (reader, writer) = stream.into_split();
    connection::serve(reader, writer, context).await
}

//! Takes agents' connections in.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use berth_controller::SessionId;
use crossbeam_channel::Sender;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::{connection, outgoing::GroupSpecs};
use crate::{engine::Input, state::View};

/// Connections at a time; each can carry many sessions.
const CONNECTIONS_MAX: usize = 16_384;
/// Waited after a failed accept: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every connection needs.
pub(crate) struct Context {
    pub inputs: Sender<Input>,
    pub view: Arc<ArcSwap<View>>,
    pub specs: GroupSpecs,
    sessions: AtomicU64,
}

impl Context {
    pub fn new(inputs: Sender<Input>, view: Arc<ArcSwap<View>>) -> Self {
        Self { inputs, view, specs: GroupSpecs::default(), sessions: AtomicU64::new(0) }
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
                        if let Err(error) = connection::serve(stream, &context).await {
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

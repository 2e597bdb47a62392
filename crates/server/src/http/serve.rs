//! Accepts connections, as many as there are places for, until told to stop.

use std::{future::Future, io, sync::Arc, time::Duration};

use axum::Router;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use super::{Limits, api::Api, connection, counters::Gauged, router::router};
use crate::state::State;

/// Waited after a connection could not be accepted: most such faults pass, and none is mended by haste.
const ACCEPT_RETRY_MS: u64 = 100;

/// Serves the HTTP API until `shutdown` completes; then blocked readers are answered, streams end, and what is not done
/// within [`Limits::shutdown_grace_ms`] is cut off.
///
/// # Errors
/// When the listener has no address.
pub async fn serve(
    listener: TcpListener,
    state: State,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let api = Api::new(state, limits, listener.local_addr()?);
    let router = router(&api);
    let mut connections = JoinSet::new();
    tokio::select! {
        () = shutdown => {}
        () = accept_all(&listener, &api, &router, &mut connections) => {}
    }
    drop(listener);
    api.stopping.cancel();
    finish(connections, Duration::from_millis(api.limits.shutdown_grace_ms)).await;
    Ok(())
}

async fn accept_all(listener: &TcpListener, api: &Api, router: &Router, connections: &mut JoinSet<()>) {
    let places = Arc::new(Semaphore::new(api.limits.connections_max));
    loop {
        // A place first: what cannot be served waits in the kernel's queue, which is bounded too.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Some(stream) = accept(listener).await else { continue };
        let (api, router) = (api.clone(), router.clone());
        connections.spawn(async move {
            let _place = place;
            let _open = Gauged::new(&api.counters.connections);
            connection::serve(stream, &api, router).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::warn!(%error, "accept an http connection");
            tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
            None
        }
    }
}

async fn finish(mut connections: JoinSet<()>, grace: Duration) {
    let all_done = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all_done).await.is_err() {
        tracing::warn!(open = connections.len(), "cut off http connections that did not end in time");
        connections.shutdown().await;
    }
}

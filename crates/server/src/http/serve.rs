//! Accepts connections, as many as there are places for, until told to stop.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::Router;
use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use super::{Limits, Table, addresses::Addresses, api::Api, connection, counters::Gauged, router::router};
use crate::state::State;

/// Waited after a connection could not be accepted: most such faults pass, and none is mended by haste.
const ACCEPT_RETRY_MS: u64 = 100;

/// The answer to a connection of an address that has too many.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 66\r\n\
    connection: close\r\n\
    retry-after: 1\r\n\r\n\
    your address has too many connections open: close some, then retry";

/// Serves an API until `shutdown` completes; then blocked readers are answered, streams end, and what is not done
/// within [`Limits::shutdown_grace_ms`] is cut off.
///
/// # Errors
/// When the listener has no address.
pub async fn serve(
    listener: TcpListener,
    table: Table,
    state: State,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let api = Api::new(table, state, limits, listener.local_addr()?);
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
    let addresses = Addresses::default();
    loop {
        // A place first: what cannot be served waits in the kernel's queue, which is bounded too.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Some((stream, peer)) = accept(listener).await else { continue };
        let Some(counted) = addresses.count(peer.ip(), api.limits.connections_per_address_max) else {
            api.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
            refuse(&stream);
            continue;
        };
        let (api, router) = (api.clone(), router.clone());
        connections.spawn(async move {
            let (_place, _counted) = (place, counted);
            let _open = Gauged::new(&api.counters.connections);
            connection::serve(stream, peer, &api, router).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Tells a client that it has too many connections, before it has asked anything.
fn refuse(stream: &TcpStream) {
    // Nothing waits for a client that does not even take this.
    let _ = SockRef::from(stream).send(TOO_MANY_CONNECTIONS);
}

async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
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

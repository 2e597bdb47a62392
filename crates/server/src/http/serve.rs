//! Accepts connections within the limits until the server stops.

use std::{future::Future, io, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use axum::Router;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

use super::{Limits, Table, api::Api, connection, lease, router::router, slots::ConnectionSlots};
use crate::{
    PANICKED,
    gauge_guard::GaugeGuard,
    net::{NetStream, PortAcceptor},
    shared::State,
};

/// Pause after a failed accept: file descriptors may have run out.
const ACCEPT_RETRY_MS: u64 = 100;

/// The response to a connection for which no slot is free, before it has sent a request.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 159\r\n\
    connection: close\r\n\
    retry-after: 1\r\n\r\n\
    this server, or your address, has too many connections: close some, then retry, \
    or have the operator raise --http-connections-max or --http-connections-address";

/// Serves an API on a listener until `shutdown` completes; then blocked readers are answered, streams end, and what is not done
/// within [`Limits::shutdown_grace_ms`] is cut off.
///
/// # Errors
/// When the listener has no address, or the watch over leases has panicked.
pub async fn serve(
    listener: TcpListener,
    entrance: PortAcceptor,
    table: Table,
    state: State,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (_, no_tasks) = mpsc::channel(1);
    serve_with_tasks(listener, entrance, table, state, limits, no_tasks, shutdown).await
}

/// The same, and the connections of tasks, which their agents carry here.
///
/// # Errors
/// As [`serve`].
pub(crate) async fn serve_with_tasks(
    listener: TcpListener,
    entrance: PortAcceptor,
    table: Table,
    state: State,
    limits: Limits,
    of_tasks: mpsc::Receiver<NetStream>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut api = Api::new(table, state, limits, listener.local_addr()?);
    // With TLS, a foreign host name that points to this machine fails at the certificate already.
    api.local_only &= !entrance.is_encrypted();
    let router = router(&api);
    let mut connections = JoinSet::new();
    let mut watch_task = tokio::spawn(lease::watch(api.clone()));
    let outcome = tokio::select! {
        () = shutdown => Ok(()),
        () = accept_all(&listener, &entrance, of_tasks, &api, &router, &mut connections) => Ok(()),
        // Without the watch, long-lived requests would outlive the rights that allowed them.
        Err(_) = &mut watch_task => Err(io::Error::other(format!("watch over what tokens allow: {PANICKED}"))),
    };
    drop(listener);
    api.stopping.cancel();
    if !watch_task.is_finished() {
        drop(watch_task.await);
    }
    finish(connections, Duration::from_millis(api.limits.shutdown_grace_ms)).await;
    outcome
}

async fn accept_all(
    listener: &TcpListener,
    entrance: &PortAcceptor,
    mut of_tasks: mpsc::Receiver<NetStream>,
    api: &Api,
    router: &Router,
    connections: &mut JoinSet<()>,
) {
    let slots = ConnectionSlots::new(&api.limits);
    loop {
        let accepted = tokio::select! {
            accepted = accept(listener) => accepted,
            // Their number is limited where agents open them.
            Some(stream) = of_tasks.recv() => {
                let (api, router) = (api.clone(), router.clone());
                connections.spawn(async move { connection::serve(stream, false, &api, router).await });
                while connections.try_join_next().is_some() {}
                continue;
            }
        };
        let Some((stream, peer)) = accepted else { continue };
        let Some(slot) = slots.enter(peer.ip()) else {
            api.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
            // Not sent to a client that does not read at once, nor where a handshake would come first.
            if entrance.is_open() {
                let _ = stream.try_write(TOO_MANY_CONNECTIONS);
            }
            continue;
        };
        let (api, router, entrance) = (api.clone(), router.clone(), entrance.clone());
        connections.spawn(async move {
            let _open = GaugeGuard::new(&api.counters.connections);
            match entrance.enter(stream, peer).await {
                Ok(stream) => connection::serve(stream, slot.is_reserved, &api, router).await,
                Err(error) => tracing::debug!(%peer, %error, "an http connection did not come about"),
            }
            drop(slot);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(%error, "could not accept an http connection");
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

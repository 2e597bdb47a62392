//! Accepts connections and serves each by the router, within limits, until told to stop.

use std::{future::Future, io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{Limits, api::Api, counters::Gauged, router::router};
use crate::state::State;

/// Waited after a connection could not be accepted: most such faults pass, and none is mended by haste.
const ACCEPT_RETRY_MS: u64 = 100;
/// A peer that is silent for this long is asked whether it is still there.
const KEEPALIVE_IDLE_MS: u64 = 30_000;
/// How often it is asked.
const KEEPALIVE_INTERVAL_MS: u64 = 10_000;
/// After so many questions without an answer it is gone.
const KEEPALIVE_RETRIES: u32 = 3;

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
            serve_connection(stream, &api, router).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => {
            if let Err(error) = prepare(&stream) {
                tracing::debug!(%error, "set options of an http connection");
            }
            Some(stream)
        }
        Err(error) => {
            tracing::warn!(%error, "accept an http connection");
            tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
            None
        }
    }
}

/// A blocked reader may be silent for minutes: only the kernel can tell that its machine is gone.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_millis(KEEPALIVE_IDLE_MS))
        .with_interval(Duration::from_millis(KEEPALIVE_INTERVAL_MS))
        .with_retries(KEEPALIVE_RETRIES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

async fn serve_connection(stream: TcpStream, api: &Api, router: Router) {
    let limits = &api.limits;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.header_timeout_ms))
        .max_buf_size(limits.header_bytes_max)
        .max_headers(limits.headers_max)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = until_done(connection, &api.stopping).await {
        tracing::debug!(%error, "an http connection broke");
    }
}

type Connection = http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>>;

async fn until_done(connection: Connection, stopping: &CancellationToken) -> hyper::Result<()> {
    tokio::pin!(connection);
    tokio::select! {
        done = connection.as_mut() => return done,
        () = stopping.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

async fn finish(mut connections: JoinSet<()>, grace: Duration) {
    let all_done = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all_done).await.is_err() {
        tracing::warn!(open = connections.len(), "cut off http connections that did not end in time");
        connections.shutdown().await;
    }
}

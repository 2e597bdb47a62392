//! One HTTP connection: its limits, its end when the server stops, and the detection of dead peers.

use std::{convert::Infallible, io, time::Duration};

use axum::{Router, response::Response};
use bytes::Bytes;
use hyper::{Request, body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt, util::Oneshot};

use super::{Limits, api::Api, caller::Caller};
use crate::net::{KeepAlive, NetStream};

/// A blocked reader may be silent for minutes: only the kernel can know that its machine is gone.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(30), interval: Duration::from_secs(10), retries: 3 };
/// How long the rest of a client's request is read and discarded after its response was sent.
const LINGER_MS: u64 = 1_000;
/// Bytes discarded in one read.
const LINGER_BUFFER_BYTES: usize = 16 << 10;

type HttpConnection = http1::Connection<TokioIo<NetStream>, ConnectionRouter>;

/// The router, with the connection that requests come by.
struct ConnectionRouter {
    router: Router,
    caller: Caller,
}

impl Service<Request<Incoming>> for ConnectionRouter {
    type Response = Response;
    type Error = Infallible;
    type Future = Oneshot<Router, Request<Incoming>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.caller.stall_exemption.set(false);
        request.extensions_mut().insert(self.caller.clone());
        self.router.clone().oneshot(request)
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve(mut stream: NetStream, is_reserved: bool, api: &Api, router: Router) {
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%error, "set options of an http connection");
    }
    let certificate = stream.certificate().map(|peer| peer.identity.to_string().into());
    let caller = Caller::new(stream.peer(), certificate, is_reserved).of_task(stream.of_task().cloned());
    stream.set_write_stall_max(
        Duration::from_millis(api.limits.write_stall_ms),
        caller.stall_exemption.clone(),
    );
    let connection = open(stream, &api.limits, ConnectionRouter { router, caller: caller.clone() });
    let outcome = match until_done(connection, &api.stopping).await {
        Ok((stream, read)) => match caller.takeover() {
            Some(take_over) => {
                // A person may look at the output of a command without reading on.
                caller.stall_exemption.set(true);
                take_over(stream, read).await;
                Ok(())
            }
            None => linger(stream).await.map_err(|error| error.to_string()),
        },
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "an http connection broke");
    }
}

fn prepare(stream: &NetStream) -> io::Result<()> {
    stream.set_nodelay()?;
    stream.set_keepalive(KEEP_ALIVE)
}

fn open(stream: NetStream, limits: &Limits, serving: ConnectionRouter) -> HttpConnection {
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.header_timeout_ms))
        .max_buf_size(limits.header_bytes_max)
        .max_headers(limits.headers_max)
        .serve_connection(TokioIo::new(stream), serving)
}

/// Answers requests until the client closes, asks for another protocol, or the server stops. Returns the open stream with the bytes
/// that were read beyond the last request.
async fn until_done(
    mut connection: HttpConnection,
    stopping: &CancellationToken,
) -> hyper::Result<(NetStream, Bytes)> {
    let mut notified = false;
    loop {
        tokio::select! {
            outcome = std::future::poll_fn(|context| connection.poll_without_shutdown(context)) => {
                return outcome.map(|()| {
                    let parts = connection.into_parts();
                    (parts.io.into_inner(), parts.read_buf)
                });
            }
            () = stopping.cancelled(), if !notified => {
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                notified = true;
            }
        }
    }
}

/// Closes so that the last response arrives: the kernel resets a connection that is closed with unread bytes, and a client that is still
/// sending a refused body would never see why.
async fn linger(mut stream: NetStream) -> io::Result<()> {
    stream.shutdown().await?;
    let read_all = async {
        let mut unread = vec![0; LINGER_BUFFER_BYTES];
        while stream.read(&mut unread).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(Duration::from_millis(LINGER_MS), read_all).await.unwrap_or(Ok(()))
}

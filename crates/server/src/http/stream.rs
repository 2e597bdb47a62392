//! Unbounded responses: a task writes them, and is never ahead of the client by more than a small buffer.

use std::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::{body::Frame, header::HeaderValue};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    call::{Call, Reply},
    gzip::Streaming,
    json_text::JsonText,
    reply::with_type,
};

/// Pieces that wait for the client to take them.
const PIECES_WAITING_MAX: usize = 4;
/// An empty object: the server still lives.
const HEARTBEAT: &[u8] = b"{}\n";

/// What was to follow will not: the connection is cut, so that nobody takes what has come for the whole.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StreamAborted(String);

impl StreamAborted {
    /// With this reason, for users.
    pub fn because(why: impl ToString) -> Self {
        Self(why.to_string())
    }
}

/// The writing end of a stream.
pub(crate) struct StreamWriter {
    pieces: mpsc::Sender<Result<Bytes, StreamAborted>>,
    stopping: CancellationToken,
    /// Of the last line.
    line_bytes: AtomicUsize,
}

/// The client is gone, or the server stops: there is nobody to write for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

impl StreamWriter {
    /// Sends a piece, once the client's buffer takes it.
    pub async fn send(&self, piece: impl Into<Bytes>) -> Result<(), Closed> {
        self.pieces.send(Ok(piece.into())).await.map_err(|_| Closed)
    }

    /// Sends a piece, from a thread that may wait.
    pub fn send_blocking(&self, piece: impl Into<Bytes>) -> Result<(), Closed> {
        self.pieces.blocking_send(Ok(piece.into())).map_err(|_| Closed)
    }

    /// Cuts the connection: of a stream of plain bytes nothing else shows that it is not whole.
    pub async fn break_off(&self, why: impl ToString) -> Result<(), Closed> {
        self.pieces.send(Err(StreamAborted::because(why))).await.map_err(|_| Closed)
    }

    /// Sends a heartbeat.
    pub async fn beat(&self) -> Result<(), Closed> {
        self.send(HEARTBEAT).await
    }

    /// Sends a value as one line.
    pub async fn line(&self, value: &impl Serialize) -> Result<(), Closed> {
        self.send(self.text(value)).await
    }

    /// A value as one line.
    pub fn text(&self, value: &impl Serialize) -> Bytes {
        // Lines of a stream are much alike: one that grows by doubling copies itself many times.
        let mut line = JsonText::with_capacity(self.line_bytes.load(Ordering::Relaxed));
        if let Err(error) = line.add(value, false) {
            tracing::error!(%error, "could not encode a line of a stream");
            line.push(b"{}");
        }
        line.push(b"\n");
        self.line_bytes.store(line.len(), Ordering::Relaxed);
        line.into_bytes()
    }

    /// Whether the server stops: what is there already may still be sent, nothing is waited for.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Waits for something to send, and sends heartbeats meanwhile if `beat` says how often.
    pub async fn wait<T>(&self, beat: Option<Duration>, next: impl Future<Output = T>) -> Result<T, Closed> {
        tokio::select! {
            found = self.wait_while_read(beat, next) => found,
            () = self.stopping.cancelled() => Err(Closed),
        }
    }

    /// The same, also while the server stops: for what ends by itself then. Its connection is cut after
    /// [`Limits::shutdown_grace_ms`](super::limits::Limits::shutdown_grace_ms) all the same.
    pub async fn wait_while_read<T>(
        &self,
        beat: Option<Duration>,
        next: impl Future<Output = T>,
    ) -> Result<T, Closed> {
        tokio::pin!(next);
        loop {
            tokio::select! {
                found = &mut next => return Ok(found),
                () = self.pieces.closed() => return Err(Closed),
                () = sleep(beat) => self.beat().await?,
            }
        }
    }
}

async fn sleep(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}

/// Answers with what `write` writes. It is dropped as soon as nobody reads.
pub(crate) fn stream<F>(
    call: &Call,
    content_type: HeaderValue,
    write: impl FnOnce(StreamWriter) -> F,
) -> Reply
where
    F: Future<Output = Result<(), Closed>> + Send + 'static,
{
    let waiter = call.begin_to_wait()?;
    let (sender, receiver) = mpsc::channel(PIECES_WAITING_MAX);
    let stopping = call.api.stopping.clone();
    let written = write(StreamWriter { pieces: sender, stopping, line_bytes: AtomicUsize::new(0) });
    tokio::spawn(async move {
        let _waiter = waiter;
        written.await
    });
    let mut response = with_type(Body::new(StreamPieces(receiver)), content_type);
    response.extensions_mut().insert(Streaming);
    Ok(response)
}

struct StreamPieces(mpsc::Receiver<Result<Bytes, StreamAborted>>);

impl HttpBody for StreamPieces {
    type Data = Bytes;
    type Error = StreamAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamAborted>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

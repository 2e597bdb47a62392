//! Open requests of clients, each on a connection of its own: event streams and blocking reads.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};

use crate::run::{RunError, Target, http::Connection};

const STREAM: &str = "/v1/event/stream?topic=Job&namespace=default&recent=false";
const LIST: &str = "/v1/jobs";
/// Connections that are being opened at a time.
const OPENING_MAX: usize = 64;
/// How long opening one may take.
const OPEN_MAX: Duration = Duration::from_secs(60);

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenRequest {
    /// All that happens, one event after the other.
    Stream,
    /// A list that is other than it was.
    Read,
}

/// A client waits no more.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedRequest {
    pub kind: OpenRequest,
    pub at: Instant,
    /// It was answered as if the token were still valid.
    pub was_answered: bool,
}

/// Clients with open requests.
#[derive(Default)]
pub(super) struct OpenRequests {
    pub clients: JoinSet<EndedRequest>,
}

impl OpenRequests {
    /// Opens so many more; all requests are sent when this returns.
    pub async fn open(&mut self, target: &Target, kind: OpenRequest, count: u32) -> Result<(), RunError> {
        let (opened_sender, mut opened) = mpsc::unbounded_channel();
        let opening = Arc::new(Semaphore::new(OPENING_MAX));
        for _ in 0..count {
            let (target, opened_sender, opening) = (target.clone(), opened_sender.clone(), opening.clone());
            self.clients.spawn(async move {
                let turn = opening.acquire_owned().await;
                let on_open = || {
                    drop(turn);
                    let _ = opened_sender.send(Ok(()));
                };
                let waited = match kind {
                    OpenRequest::Stream => stream(&target, on_open).await,
                    OpenRequest::Read => read(&target, on_open).await,
                };
                if let Err(error) = &waited {
                    let _ = opened_sender.send(Err(error.to_string()));
                }
                EndedRequest { kind, at: Instant::now(), was_answered: waited.unwrap_or(true) }
            });
        }
        let failed = |reason: String| RunError::Http { doing: "wait for a change".to_owned(), reason };
        for open in 0..count {
            let one = timeout(OPEN_MAX, opened.recv()).await;
            let one = one.map_err(|_| failed(format!("{open} of {count} have asked after {OPEN_MAX:?}")))?;
            one.unwrap_or_else(|| Err("it has ended".to_owned())).map_err(failed)?;
        }
        Ok(())
    }
}

/// Follows the stream to its end. Events may come before that.
async fn stream(target: &Target, on_open: impl FnOnce()) -> Result<bool, RunError> {
    let mut lines = Connection::open(target).await?.lines(STREAM).await?;
    lines.next().await?;
    on_open();
    while lines.next().await.is_ok() {}
    Ok(false)
}

/// Waits for a change of the list: whether it was answered with the list.
async fn read(target: &Target, on_open: impl FnOnce()) -> Result<bool, RunError> {
    let mut connection = Connection::open(target).await?;
    let (_, headers) = connection.get::<Value>(LIST).await?;
    let index = headers.get("x-nomad-index").and_then(|index| index.to_str().ok()?.parse::<u64>().ok());
    // Index 0 is before any change: a read after it would not block.
    let index = index.unwrap_or_default().max(1);
    let path = format!("{LIST}?index={index}&wait=5m");
    on_open();
    // That the connection ends is an answer, too.
    let reply = connection.exchange(Method::GET, &path, Bytes::new()).await;
    Ok(reply.is_ok_and(|reply| reply.status.is_success()))
}

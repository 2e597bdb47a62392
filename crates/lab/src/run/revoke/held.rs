//! Clients that wait, each on a connection of its own.

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
/// Until one must be open.
const OPEN_MAX: Duration = Duration::from_secs(60);

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// All that happens, one event after the other.
    Stream,
    /// A list that is other than it was.
    Read,
}

/// A client waits no more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub way: Way,
    pub at: Instant,
    /// It was answered what it asked for, as if nothing had happened.
    pub was_answered: bool,
}

/// Clients that wait.
#[derive(Default)]
pub(super) struct Held {
    pub clients: JoinSet<Ended>,
}

impl Held {
    /// Opens so many more; all have asked when this returns.
    pub async fn open(&mut self, target: &Target, way: Way, count: u32) -> Result<(), RunError> {
        let (told, mut asked) = mpsc::unbounded_channel();
        let opening = Arc::new(Semaphore::new(OPENING_MAX));
        for _ in 0..count {
            let (target, told, opening) = (target.clone(), told.clone(), opening.clone());
            self.clients.spawn(async move {
                let turn = opening.acquire_owned().await;
                let asked = || {
                    drop(turn);
                    let _ = told.send(Ok(()));
                };
                let waited = match way {
                    Way::Stream => stream(&target, asked).await,
                    Way::Read => read(&target, asked).await,
                };
                if let Err(error) = &waited {
                    let _ = told.send(Err(error.to_string()));
                }
                Ended { way, at: Instant::now(), was_answered: waited.unwrap_or(true) }
            });
        }
        let failed = |reason: String| RunError::Http { doing: "wait for a change".to_owned(), reason };
        for open in 0..count {
            let one = timeout(OPEN_MAX, asked.recv()).await;
            let one = one.map_err(|_| failed(format!("{open} of {count} have asked after {OPEN_MAX:?}")))?;
            one.unwrap_or_else(|| Err("it has ended".to_owned())).map_err(failed)?;
        }
        Ok(())
    }
}

/// Follows the stream to its end. Events may come before that.
async fn stream(target: &Target, asked: impl FnOnce()) -> Result<bool, RunError> {
    let mut lines = Connection::open(target).await?.lines(STREAM).await?;
    lines.next().await?;
    asked();
    while lines.next().await.is_ok() {}
    Ok(false)
}

/// Waits for a change of the list: whether it was answered with the list.
async fn read(target: &Target, asked: impl FnOnce()) -> Result<bool, RunError> {
    let mut connection = Connection::open(target).await?;
    let (_, headers) = connection.get::<Value>(LIST).await?;
    let index = headers.get("x-nomad-index").and_then(|index| index.to_str().ok()?.parse::<u64>().ok());
    // 0 is where nothing has ever been: whoever asks for what comes after that does not wait.
    let index = index.unwrap_or_default().max(1);
    let path = format!("{LIST}?index={index}&wait=5m");
    asked();
    // That the connection ends is an answer, too.
    let reply = connection.exchange(Method::GET, &path, Bytes::new()).await;
    Ok(reply.is_ok_and(|reply| reply.status.is_success()))
}

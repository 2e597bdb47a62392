//! One read: sends pieces as the server grants credit, until there is nothing more to read.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::agent::{FileChunk, FileRead, Up};
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep};

use super::source::{ReadPiece, ReadSource};
use crate::failure::PANICKED;
use crate::files::FileReader;
use crate::keeper::plan::StartRecord;
use crate::logs::{LogPath, LogReader};
use crate::paths::{AllocPaths, is_plain_name};

const CHUNK_BYTES_MAX: usize = 64 << 10;

/// How often what is followed is looked at.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);

/// How long a reader of what is quiet goes without a sign of life.
const QUIET_MAX: Duration = Duration::from_secs(5);

pub(super) struct ReadStream {
    pub(super) request: FileRead,
    pub(super) paths: AllocPaths,
    pub(super) credit: Arc<Semaphore>,
    pub(super) done: Arc<AtomicBool>,
    pub(super) up: mpsc::Sender<Up>,
}

impl ReadStream {
    /// Reads to the end; answers with why it ended early, if so.
    pub(super) async fn run(&self) -> String {
        match self.source().await {
            Ok(source) => {
                self.send_all(source).await.map_or_else(|error| error.to_string(), |()| String::new())
            }
            Err(error) => error,
        }
    }

    async fn source(&self) -> Result<ReadSource, String> {
        let request = &self.request;
        if !request.path.is_empty() {
            let (paths, request) = (self.paths.clone(), request.clone());
            let opened = blocking(move || FileReader::open(&paths, &request)).await;
            let opened = opened.map_err(|error| error.to_string())?;
            return opened.map(ReadSource::File).map_err(|error| error.to_string());
        }
        if !is_plain_name(&request.task) || !matches!(request.stream.as_str(), "stdout" | "stderr") {
            return Err(format!("not found: no task has the log {}.{}", request.task, request.stream));
        }
        let Some(log) = self.log().await else {
            return Err(format!("not found: there is no log {}.{}", request.task, request.stream));
        };
        Ok(ReadSource::Log(LogReader::new(log, request.offset, request.from_end)))
    }

    /// The log, once the task has started; none when it will not.
    async fn log(&self) -> Option<LogPath> {
        loop {
            let done = self.done.load(Ordering::Relaxed);
            let keeper_dir = self.paths.keeper_dir(&self.request.task);
            let start = StartRecord::read(&keeper_dir).ok().flatten();
            if let Some(logs) = start.map(|start| start.logs) {
                let (dir, stream) = (Path::new(&logs.dir), &self.request.stream);
                return (!logs.disabled).then(|| LogPath::new(dir, &logs.task, stream, logs.file_bytes_max));
            }
            if done || !self.request.follow {
                return None;
            }
            sleep(FOLLOW_PAUSE).await;
        }
    }

    async fn send_all(&self, mut source: ReadSource) -> io::Result<()> {
        let mut spoke = Instant::now();
        loop {
            // Looked at before what is read: what was written until then is still to be read.
            let done = self.done.load(Ordering::Relaxed) || !self.request.follow;
            loop {
                let sent;
                (source, sent) = self.send_piece(source).await?;
                if !sent {
                    break;
                }
                spoke = Instant::now();
            }
            if done || source.has_ended() {
                return Ok(());
            }
            if spoke.elapsed() > QUIET_MAX {
                self.send(FileChunk { offset: source.offset(), ..FileChunk::default() }).await;
                spoke = Instant::now();
            }
            sleep(FOLLOW_PAUSE).await;
        }
    }

    /// Sends as much as the credit allows; false at the end so far.
    async fn send_piece(&self, mut source: ReadSource) -> io::Result<(ReadSource, bool)> {
        let Ok(first) = self.credit.acquire().await else { return Ok((source, false)) };
        first.forget();
        let more = self.credit.forget_permits(CHUNK_BYTES_MAX - 1);
        let (source, piece) = blocking(move || {
            let piece = source.next_piece(1 + more);
            (source, piece)
        })
        .await?;
        let piece = piece?;
        self.credit.add_permits(1 + more - piece.as_ref().map_or(0, |piece| piece.data.len()));
        let Some(ReadPiece { file, offset, data, event }) = piece else { return Ok((source, false)) };
        let (data, event) = (Bytes::from(data), event.to_owned());
        self.send(FileChunk { offset, file, data, event, ..FileChunk::default() }).await;
        Ok((source, true))
    }

    pub(super) async fn end(&self, error: String) {
        self.send(FileChunk { done: true, error, ..FileChunk::default() }).await;
    }

    async fn send(&self, chunk: FileChunk) {
        let chunk = FileChunk { request: self.request.request, ..chunk };
        // Fails when the connection is gone, and this future with it.
        let _ = self.up.send(Up::FileChunk(chunk)).await;
    }
}

/// Touches the disk where that holds up nobody.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| io::Error::other(PANICKED))
}

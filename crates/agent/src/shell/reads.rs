//! People who read the output of tasks, by way of the server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::agent::{AllocId, FileChunk, FileRead, Up};
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::keeper::plan::StartRecord;
use crate::logs::{LogPlace, LogReader};
use crate::place::{AllocPlace, is_plain_name};

/// Readers at a time.
const READS_MAX: usize = 64;
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// How often a log that is followed is looked at.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);

/// How long a reader of a quiet log goes without a sign of life.
const QUIET_MAX: Duration = Duration::from_secs(5);

/// Readers, by their request's number.
#[derive(Default)]
pub(super) struct Reads {
    reads: BTreeMap<u64, Read>,
}

struct Read {
    alloc: AllocId,
    task: String,
    credit: Arc<Semaphore>,
    /// The task will write no more.
    done: Arc<AtomicBool>,
    future: AbortHandle,
}

impl Reads {
    /// Answers a request. `done` says that the task will write no more.
    pub(super) fn open(&mut self, request: FileRead, place: AllocPlace, done: bool, up: mpsc::Sender<Up>) {
        self.reads.retain(|_, read| !read.future.is_finished());
        let Some(alloc) = AllocId::from_slice(&request.alloc_id) else { return };
        let credit = Arc::new(Semaphore::new(permits(request.credit_bytes)));
        let done = Arc::new(AtomicBool::new(done));
        let (number, task) = (request.request, request.task.clone());
        let refused = self.reads.len() >= READS_MAX;
        let reading = Reading { request, place, credit: credit.clone(), done: done.clone(), up };
        let future = tokio::spawn(async move {
            let error = if refused { "too many readers".into() } else { reading.run().await };
            reading.end(error).await;
        });
        self.reads.insert(number, Read { alloc, task, credit, done, future: future.abort_handle() });
    }

    pub(super) fn on_credit(&self, request: u64, bytes: u64) {
        if let Some(read) = self.reads.get(&request) {
            let room = Semaphore::MAX_PERMITS - read.credit.available_permits();
            read.credit.add_permits(permits(bytes).min(room));
        }
    }

    pub(super) fn on_cancel(&mut self, request: u64) {
        if let Some(read) = self.reads.remove(&request) {
            read.future.abort();
        }
    }

    pub(super) fn on_task_done(&self, alloc: AllocId, task: &str) {
        let reads = self.reads.values().filter(|read| read.alloc == alloc && read.task == task);
        reads.for_each(|read| read.done.store(true, Ordering::Relaxed));
    }

    pub(super) fn cancel_all(&mut self) {
        std::mem::take(&mut self.reads).into_values().for_each(|read| read.future.abort());
    }
}

pub(super) fn permits(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

struct Reading {
    request: FileRead,
    place: AllocPlace,
    credit: Arc<Semaphore>,
    done: Arc<AtomicBool>,
    up: mpsc::Sender<Up>,
}

impl Reading {
    /// Reads to the end; answers with why it ended early, if so.
    async fn run(&self) -> String {
        let request = &self.request;
        if !is_plain_name(&request.task) || !matches!(request.stream.as_str(), "stdout" | "stderr") {
            return format!("not found: no task has the log {}.{}", request.task, request.stream);
        }
        let Some(log) = self.log().await else {
            return format!("not found: there is no log {}.{}", request.task, request.stream);
        };
        let mut reader = LogReader::new(log, request.offset, request.from_end);
        self.send_all(&mut reader).await.map_or_else(|error| error.to_string(), |()| String::new())
    }

    /// The log, once the task has started; none when it will not.
    async fn log(&self) -> Option<LogPlace> {
        loop {
            let done = self.done.load(Ordering::Relaxed);
            let keeper_dir = self.place.keeper_dir(&self.request.task);
            let start = StartRecord::read(&keeper_dir).ok().flatten();
            if let Some(logs) = start.map(|start| start.logs) {
                let (dir, stream) = (Path::new(&logs.dir), &self.request.stream);
                return (!logs.disabled).then(|| LogPlace::new(dir, &logs.task, stream, logs.file_bytes_max));
            }
            if done || !self.request.follow {
                return None;
            }
            sleep(FOLLOW_PAUSE).await;
        }
    }

    async fn send_all(&self, reader: &mut LogReader) -> std::io::Result<()> {
        let mut spoke = Instant::now();
        loop {
            // Looked at before the log is: what was written until then is still to be read.
            let done = self.done.load(Ordering::Relaxed) || !self.request.follow;
            while self.send_piece(reader).await? {
                spoke = Instant::now();
            }
            if done {
                return Ok(());
            }
            if spoke.elapsed() > QUIET_MAX {
                self.send(FileChunk { offset: reader.offset(), ..FileChunk::default() }).await;
                spoke = Instant::now();
            }
            sleep(FOLLOW_PAUSE).await;
        }
    }

    /// Sends as much as the credit allows; false at the end so far.
    async fn send_piece(&self, reader: &mut LogReader) -> std::io::Result<bool> {
        let Ok(first) = self.credit.acquire().await else { return Ok(false) };
        first.forget();
        let more = self.credit.forget_permits(CHUNK_BYTES_MAX - 1);
        let piece = reader.next_piece(1 + more)?;
        self.credit.add_permits(1 + more - piece.as_ref().map_or(0, |piece| piece.data.len()));
        let Some(piece) = piece else { return Ok(false) };
        let (offset, file) = (piece.offset, piece.file);
        self.send(FileChunk { offset, file, data: Bytes::from(piece.data), ..FileChunk::default() }).await;
        Ok(true)
    }

    async fn end(&self, error: String) {
        self.send(FileChunk { done: true, error, ..FileChunk::default() }).await;
    }

    async fn send(&self, chunk: FileChunk) {
        let chunk = FileChunk { request: self.request.request, ..chunk };
        // Fails when the connection is gone, and this future with it.
        let _ = self.up.send(Up::FileChunk(chunk)).await;
    }
}

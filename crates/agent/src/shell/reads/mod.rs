//! Reads of tasks' output, of allocations' files and of the agent's own log, for users, by way of the server.

mod own_log;
mod source;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_api::LogFeed;
use berth_api::agent::{AllocId, AllocStatus, FileRead, TaskPhase, Up};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use self::own_log::OwnLogReader;
use self::stream::ReadStream;
use crate::paths::AllocPaths;

/// Readers at a time.
const READS_MAX: usize = 64;

/// Readers, by their request's number.
#[derive(Default)]
pub(super) struct Reads {
    reads: BTreeMap<u64, RunningRead>,
    log_feed: LogFeed,
}

struct RunningRead {
    alloc: AllocId,
    /// The task whose output is read; none for a file.
    task: Option<String>,
    credit: Arc<Semaphore>,
    /// Nothing more will be written.
    done: Arc<AtomicBool>,
    future: AbortHandle,
}

impl Reads {
    pub(super) fn new(log_feed: LogFeed) -> Self {
        Self { log_feed, ..Self::default() }
    }

    /// Answers a request about an allocation, as it stands.
    pub(super) fn open(
        &mut self,
        request: FileRead,
        paths: AllocPaths,
        status: Option<&AllocStatus>,
        up: mpsc::Sender<Up>,
    ) {
        self.reads.retain(|_, read| !read.future.is_finished());
        let Some(alloc) = AllocId::from_slice(&request.alloc_id) else { return };
        let number = request.request;
        let refused = self.reads.len() >= READS_MAX;
        let credit = Arc::new(Semaphore::new(permits(request.credit_bytes)));
        if let Some(options) = &request.agent_log {
            let reading = OwnLogReader { request: number, credit: credit.clone(), up };
            let running = reading.run((!refused).then_some((&self.log_feed, options)));
            let future = tokio::spawn(running).abort_handle();
            let done = Arc::default();
            self.reads.insert(number, RunningRead { alloc, task: None, credit, done, future });
            return;
        }
        let task = request.path.is_empty().then(|| request.task.clone());
        let done = status.is_none_or(|status| is_done(status, task.as_deref()));
        let done = Arc::new(AtomicBool::new(done));
        let reading = ReadStream { request, paths, credit: credit.clone(), done: done.clone(), up };
        let future = tokio::spawn(async move {
            let error = if refused { "too many readers".into() } else { reading.run().await };
            reading.end(error).await;
        });
        self.reads.insert(number, RunningRead { alloc, task, credit, done, future: future.abort_handle() });
    }

    pub(super) fn on_credit(&self, request: u64, bytes: u64) {
        if let Some(read) = self.reads.get(&request) {
            let headroom = Semaphore::MAX_PERMITS - read.credit.available_permits();
            read.credit.add_permits(permits(bytes).min(headroom));
        }
    }

    pub(super) fn on_cancel(&mut self, request: u64) {
        if let Some(read) = self.reads.remove(&request) {
            read.future.abort();
        }
    }

    /// An allocation stands differently.
    pub(super) fn on_status(&self, alloc: AllocId, status: &AllocStatus) {
        let reads = self.reads.values().filter(|read| read.alloc == alloc);
        let done = reads.filter(|read| is_done(status, read.task.as_deref()));
        done.for_each(|read| read.done.store(true, Ordering::Relaxed));
    }

    pub(super) fn cancel_all(&mut self) {
        std::mem::take(&mut self.reads).into_values().for_each(|read| read.future.abort());
    }
}

/// Whether a task will write no more, or none of them where none is named.
fn is_done(status: &AllocStatus, task: Option<&str>) -> bool {
    let mut tasks = status.tasks.iter().filter(|known| task.is_none_or(|task| known.name == task));
    tasks.all(|task| task.state() == TaskPhase::Dead)
}

pub(super) fn permits(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

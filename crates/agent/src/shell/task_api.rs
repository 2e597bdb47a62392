//! The HTTP API for tasks that have identities: a socket in their directories of secrets, whose connections the agent carries to a
//! server on its own session. Whoever asks shows a token; what they may do is for the server to say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::agent::{
    AllocId, TASK_API_CONNECTIONS_MAX, TASK_API_IDLE_MAX, TaskApi, TaskApiClose, TaskApiEnd, TaskApiOpen,
    TaskApiPart, Up, task_api_refusal,
};
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::runner::{Context, Runner};
use super::secret_files;
use crate::alloc_dir::secrets::API_SOCKET;
use crate::failure::FailureContext;
use crate::lifecycle::{RunSpec, StartFailure, TaskRef};
use crate::paths::AllocPaths;

/// Connections of one task at a time; those beyond wait.
const TASK_CONNECTIONS_MAX: usize = 16;
/// Waited after a failed accept: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a task may go on sending what nobody reads, after its answer was sent.
const LINGER_MAX: Duration = Duration::from_secs(1);

const NO_SERVER: &str = "the agent is connected to no server at the moment: try again";
const TOO_MANY_CONNECTIONS: &str = "the tasks of this node have too many connections to the API: try again";

/// The connections of all tasks.
pub(super) struct TaskApis {
    open: Mutex<OpenConnections>,
    slots: Semaphore,
}

#[derive(Default)]
struct OpenConnections {
    /// The channel to the server, and the node's secret; none while there is no connection.
    up: Option<(mpsc::Sender<Up>, Vec<u8>)>,
    last: u64,
    connections: HashMap<u64, Arc<TaskApiEnd>>,
}

impl Default for TaskApis {
    fn default() -> Self {
        Self { open: Mutex::default(), slots: Semaphore::new(TASK_API_CONNECTIONS_MAX) }
    }
}

impl TaskApis {
    /// There is a server from now on.
    pub(super) fn connected(&self, up: mpsc::Sender<Up>, secret: Vec<u8>) {
        self.open().up = Some((up, secret));
    }

    /// There is none any more, and with it what it carried.
    pub(super) fn disconnected(&self) {
        let mut open = self.open();
        open.up = None;
        open.connections.drain().for_each(|(_, end)| end.close());
    }

    /// The server says something of a connection.
    pub(super) fn on_message(&self, message: TaskApi) {
        let end = self.open().connections.get(&message.connection).cloned();
        if let (Some(end), Some(part)) = (end, message.part) {
            end.on_part(part);
        }
    }

    /// Begins a connection; none while there is no server.
    fn begin(&self) -> Option<(OpenConnection<'_>, Vec<u8>)> {
        let mut open = self.open();
        let (up, secret) = open.up.clone()?;
        open.last += 1;
        let (number, end) = (open.last, Arc::new(TaskApiEnd::default()));
        open.connections.insert(number, end.clone());
        Some((OpenConnection { all: self, number, end, up }, secret))
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that the server knows of. The server is informed when this is dropped.
struct OpenConnection<'a> {
    all: &'a TaskApis,
    number: u64,
    end: Arc<TaskApiEnd>,
    up: mpsc::Sender<Up>,
}

impl OpenConnection<'_> {
    async fn send(&self, part: TaskApiPart) -> bool {
        let message = Up::TaskApi(TaskApi { connection: self.number, part: Some(part) });
        self.up.send(message).await.is_ok()
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.all.open().connections.remove(&self.number);
        let (up, part) = (self.up.clone(), Some(TaskApiPart::Close(TaskApiClose {})));
        let close = Up::TaskApi(TaskApi { connection: self.number, part });
        tokio::spawn(async move { up.send(close).await });
    }
}

/// Makes the socket of a task that has identities, in the place of one of an earlier start.
pub(super) async fn listen(runner: &Runner) -> Result<Option<UnixListener>, StartFailure> {
    if runner.spec().identities.is_empty() {
        return Ok(None);
    }
    let bind = |_: &Context, run: &RunSpec, of: TaskRef, paths: &AllocPaths| -> Result<_, StartFailure> {
        let task = &run.group.tasks[usize::from(of.task)].name;
        Ok(secret_files::socket(paths, task, API_SOCKET)?)
    };
    let bound = runner.blocking(bind).await?;
    let listener = UnixListener::from_std(bound).doing(|| format!("listen at secrets/{API_SOCKET}"))?;
    Ok(Some(listener))
}

/// Serves the connections of a task for as long as this is awaited; never ends by itself.
pub(super) async fn serve(runner: &Runner, listener: UnixListener) {
    let slots = Arc::new(Semaphore::new(TASK_CONNECTIONS_MAX));
    // They end with the task.
    let mut connections = JoinSet::new();
    loop {
        let permit = slots.clone().acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (context, alloc, task) = (runner.context.clone(), runner.of.alloc, runner.spec().name.clone());
        connections.spawn(async move {
            carry(&context.task_apis, stream, alloc, task).await;
            drop(permit);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(all: &TaskApis, mut stream: UnixStream, alloc: AllocId, task: String) {
    let Ok(_room) = all.slots.try_acquire() else {
        return refuse(stream, 429, TOO_MANY_CONNECTIONS).await;
    };
    let Some((connection, secret)) = all.begin() else {
        return refuse(stream, 503, NO_SERVER).await;
    };
    let open = TaskApiOpen { secret, alloc_id: alloc.0.to_vec(), task };
    if connection.send(TaskApiPart::Open(open)).await {
        let _ = connection.end.carry(&mut stream, TASK_API_IDLE_MAX, |part| connection.send(part)).await;
        linger(stream).await;
    }
}

/// Answers before anything was asked.
async fn refuse(mut stream: UnixStream, status: u16, text: &str) {
    if stream.write_all(task_api_refusal(status, text).as_bytes()).await.is_ok() {
        linger(stream).await;
    }
}

/// Closes once what was asked is read: a socket that is closed with something unread takes its answer with it.
async fn linger(mut stream: UnixStream) {
    let read = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = timeout(LINGER_MAX, read).await;
}

//! Queries and commands of users that the server passes on: restarts and signals of tasks, usage, files, images, metadata.

use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::{
    AgentOutcome, AgentQuery, AgentRequest, AgentResponse, AllocId, Done, GetFiles, Refusal, RefusalKind,
    RestartTasks, SignalTasks, Up,
};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::Agent;
use super::runner::TaskCommand;
use crate::failure::PANICKED;
use crate::files::{self, FileError};
use crate::paths::AllocPaths;

/// Queries that are answered at a time.
const QUERIES_MAX: usize = 64;

/// How long a task's keeper may take to pass a signal on.
const SIGNAL_MAX: Duration = Duration::from_secs(5);

/// Whether a task has been sent a signal.
type SignalResult = oneshot::Receiver<Result<(), String>>;

/// The queries that are being answered.
pub(super) struct Queries(Arc<Semaphore>);

impl Default for Queries {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(QUERIES_MAX)))
    }
}

impl Queries {
    /// Sends what `work` comes to, once it has.
    fn answer(
        &self,
        request: u64,
        up: mpsc::Sender<Up>,
        work: impl Future<Output = Result<AgentOutcome, Refusal>> + Send + 'static,
    ) {
        let Ok(permit) = self.0.clone().try_acquire_owned() else {
            let text = format!("the agent answers {QUERIES_MAX} others: try again in a moment");
            let outcome = Some(AgentOutcome::Refused(Refusal::new(RefusalKind::Busy, text)));
            // A line that is full informs the server of that by its silence.
            let _ = up.try_send(Up::Answer(AgentResponse { request, outcome }));
            return;
        };
        tokio::spawn(async move {
            let outcome = work.await.unwrap_or_else(AgentOutcome::Refused);
            let _ = up.send(Up::Answer(AgentResponse { request, outcome: Some(outcome) })).await;
            drop(permit);
        });
    }
}

impl Agent {
    pub(super) fn on_ask(&mut self, ask: AgentRequest) {
        let Some(up) = self.up.as_ref().map(|up| up.replies.clone()) else { return };
        match ask.query {
            Some(AgentQuery::Restart(query)) => {
                let restarted = self.restart(&query);
                self.queries
                    .answer(ask.request, up, async { restarted.map(|()| AgentOutcome::Done(Done {})) });
            }
            Some(AgentQuery::Signal(query)) => {
                let passed = self.pass_signal(&query);
                self.queries.answer(ask.request, up, async { all_passed(passed?).await });
            }
            Some(AgentQuery::AllocUsage(query)) => {
                let usage = self.alloc_usage(&query);
                self.queries.answer(ask.request, up, async { usage?.await });
            }
            Some(AgentQuery::NodeUsage(_)) => self.queries.answer(ask.request, up, self.node_usage()),
            Some(AgentQuery::NodeAllocUsage(_)) => self.queries.answer(ask.request, up, self.all_usage()),
            Some(AgentQuery::AllocChecks(query)) => {
                let checks = self.alloc_checks(&query);
                self.queries.answer(ask.request, up, async { checks });
            }
            Some(AgentQuery::Files(query)) => {
                let paths = AllocId::from_slice(&query.alloc_id).map(|alloc| self.data.paths(alloc));
                self.queries.answer(ask.request, up, inspect_files(paths, query));
            }
            Some(AgentQuery::Images(_)) => {
                let (context, allocs) = (self.context.clone(), self.data.path().join("allocs"));
                self.queries.answer(
                    ask.request,
                    up,
                    async move { context.providers.images.list(allocs).await },
                );
            }
            Some(AgentQuery::PullImage(query)) => {
                let context = self.context.clone();
                let pulling = async move { context.providers.images.pull_for_people(query).await };
                self.queries.answer(ask.request, up, pulling);
            }
            Some(AgentQuery::LoadImages(query)) => {
                let context = self.context.clone();
                self.queries.answer(
                    ask.request,
                    up,
                    async move { context.providers.images.load(query).await },
                );
            }
            Some(AgentQuery::RemoveImage(query)) => {
                let (context, allocs) = (self.context.clone(), self.data.path().join("allocs"));
                let removing = async move { context.providers.images.remove(query, allocs).await };
                self.queries.answer(ask.request, up, removing);
            }
            Some(AgentQuery::NodeMeta(_)) => {
                let meta = self.meta.read();
                self.queries.answer(ask.request, up, async { Ok(meta) });
            }
            Some(AgentQuery::ChangeNodeMeta(query)) => {
                let changing = self.meta.clone().change(query, self.context.equipment());
                self.queries.answer(ask.request, up, changing);
            }
            None => {
                let text = "the agent does not know this question: it is older than the server";
                let refusal = Refusal::new(RefusalKind::Failed, text);
                self.queries.answer(ask.request, up, async { Err(refusal) });
            }
        }
    }

    fn restart(&mut self, query: &RestartTasks) -> Result<(), Refusal> {
        let mut actions = Vec::new();
        self.node.restart(query, self.clock.now_ns(), &mut actions)?;
        self.perform(actions);
        Ok(())
    }

    /// Sends the signals; the result of each is reported later.
    fn pass_signal(&mut self, query: &SignalTasks) -> Result<Vec<SignalResult>, Refusal> {
        let mut actions = Vec::new();
        let (signal, tasks) = self.node.signal(query, self.clock.now_ns(), &mut actions)?;
        self.perform(actions);
        let pass = |of| {
            let (reply, passed) = oneshot::channel();
            self.runners.command(of, TaskCommand::PassSignal(signal, reply));
            passed
        };
        Ok(tasks.into_iter().map(pass).collect())
    }
}

/// What is at a path; inspected on a thread where that blocks nothing else.
async fn inspect_files(paths: Option<AllocPaths>, query: GetFiles) -> Result<AgentOutcome, Refusal> {
    let unknown = || Refusal::new(RefusalKind::NotFound, "no allocation has that id");
    let paths = paths.ok_or_else(unknown)?;
    let listed = tokio::task::spawn_blocking(move || files::inspect(&paths, &query.path, query.list));
    match listed.await {
        Ok(Ok(found)) => Ok(AgentOutcome::Files(found)),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Refusal::new(RefusalKind::Failed, format!("look at the files: {PANICKED}"))),
    }
}

impl From<FileError> for Refusal {
    fn from(error: FileError) -> Self {
        match error {
            FileError::NotFound(text) => Self::new(RefusalKind::NotFound, text),
            FileError::Invalid(text) => Self::new(RefusalKind::Invalid, text),
            FileError::Failed(text) => Self::new(RefusalKind::Failed, text),
        }
    }
}

async fn all_passed(passed: Vec<SignalResult>) -> Result<AgentOutcome, Refusal> {
    let failed = |reason: String| Refusal::new(RefusalKind::Failed, format!("send the signal: {reason}"));
    for passed in passed {
        match timeout(SIGNAL_MAX, passed).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(reason))) => return Err(failed(reason)),
            Ok(Err(_)) => return Err(failed("the task has just ended, or takes no signals now".into())),
            Err(_) => return Err(failed("the task's keeper does not answer".into())),
        }
    }
    Ok(AgentOutcome::Done(Done {}))
}

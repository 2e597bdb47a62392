//! What the server asks on behalf of people: orders about single tasks, and what things use.

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

/// Questions that are being answered.
const ASKS_MAX: usize = 64;

/// How long a task's keeper may take to pass a signal on.
const SIGNAL_MAX: Duration = Duration::from_secs(5);

/// Whether a task has been sent a signal.
type Passed = oneshot::Receiver<Result<(), String>>;

/// The questions that are being answered.
pub(super) struct Asks(Arc<Semaphore>);

impl Default for Asks {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ASKS_MAX)))
    }
}

impl Asks {
    /// Sends what `work` comes to, once it has.
    fn answer(
        &self,
        request: u64,
        up: mpsc::Sender<Up>,
        work: impl Future<Output = Result<AgentOutcome, Refusal>> + Send + 'static,
    ) {
        let Ok(place) = self.0.clone().try_acquire_owned() else {
            let text = format!("the agent answers {ASKS_MAX} others: try again in a moment");
            let outcome = Some(AgentOutcome::Refused(Refusal::new(RefusalKind::Busy, text)));
            // A line that is full informs the server of that by its silence.
            let _ = up.try_send(Up::Answer(AgentResponse { request, outcome }));
            return;
        };
        tokio::spawn(async move {
            let outcome = work.await.unwrap_or_else(AgentOutcome::Refused);
            let _ = up.send(Up::Answer(AgentResponse { request, outcome: Some(outcome) })).await;
            drop(place);
        });
    }
}

impl Agent {
    pub(super) fn on_ask(&mut self, ask: AgentRequest) {
        let Some(up) = self.up.as_ref().map(|up| up.replies.clone()) else { return };
        match ask.query {
            Some(AgentQuery::Restart(asked)) => {
                let restarted = self.restart(&asked);
                self.asks.answer(ask.request, up, async { restarted.map(|()| AgentOutcome::Done(Done {})) });
            }
            Some(AgentQuery::Signal(asked)) => {
                let passed = self.pass_signal(&asked);
                self.asks.answer(ask.request, up, async { all_passed(passed?).await });
            }
            Some(AgentQuery::AllocUsage(asked)) => {
                let usage = self.alloc_usage(&asked);
                self.asks.answer(ask.request, up, async { usage?.await });
            }
            Some(AgentQuery::NodeUsage(_)) => self.asks.answer(ask.request, up, self.node_usage()),
            Some(AgentQuery::NodeAllocUsage(_)) => self.asks.answer(ask.request, up, self.all_usage()),
            Some(AgentQuery::AllocChecks(asked)) => {
                let checks = self.alloc_checks(&asked);
                self.asks.answer(ask.request, up, async { checks });
            }
            Some(AgentQuery::Files(asked)) => {
                let place = AllocId::from_slice(&asked.alloc_id).map(|alloc| self.data.place(alloc));
                self.asks.answer(ask.request, up, look_at_files(place, asked));
            }
            Some(AgentQuery::Images(_)) => {
                let (context, allocs) = (self.context.clone(), self.data.path().join("allocs"));
                self.asks.answer(ask.request, up, async move { context.providers.images.list(allocs).await });
            }
            Some(AgentQuery::PullImage(asked)) => {
                let context = self.context.clone();
                let pulling = async move { context.providers.images.pull_for_people(asked).await };
                self.asks.answer(ask.request, up, pulling);
            }
            Some(AgentQuery::LoadImages(asked)) => {
                let context = self.context.clone();
                self.asks.answer(ask.request, up, async move { context.providers.images.load(asked).await });
            }
            Some(AgentQuery::RemoveImage(asked)) => {
                let (context, allocs) = (self.context.clone(), self.data.path().join("allocs"));
                let removing = async move { context.providers.images.remove(asked, allocs).await };
                self.asks.answer(ask.request, up, removing);
            }
            Some(AgentQuery::NodeMeta(_)) => {
                let meta = self.meta.read();
                self.asks.answer(ask.request, up, async { Ok(meta) });
            }
            Some(AgentQuery::ChangeNodeMeta(asked)) => {
                let changing = self.meta.clone().change(asked, self.context.equipment());
                self.asks.answer(ask.request, up, changing);
            }
            None => {
                let text = "the agent does not know this question: it is older than the server";
                let refusal = Refusal::new(RefusalKind::Failed, text);
                self.asks.answer(ask.request, up, async { Err(refusal) });
            }
        }
    }

    fn restart(&mut self, asked: &RestartTasks) -> Result<(), Refusal> {
        let mut actions = Vec::new();
        self.node.restart(asked, self.clock.now_ns(), &mut actions)?;
        self.perform(actions);
        Ok(())
    }

    /// Carries the order out; what comes of each task's signal is reported later.
    fn pass_signal(&mut self, asked: &SignalTasks) -> Result<Vec<Passed>, Refusal> {
        let mut actions = Vec::new();
        let (signal, tasks) = self.node.signal(asked, self.clock.now_ns(), &mut actions)?;
        self.perform(actions);
        let pass = |of| {
            let (reply, passed) = oneshot::channel();
            self.runners.command(of, TaskCommand::PassSignal(signal, reply));
            passed
        };
        Ok(tasks.into_iter().map(pass).collect())
    }
}

/// What there is at a path; looked at on a thread where that holds up nobody.
async fn look_at_files(place: Option<AllocPaths>, asked: GetFiles) -> Result<AgentOutcome, Refusal> {
    let unknown = || Refusal::new(RefusalKind::NotFound, "no allocation has that id");
    let place = place.ok_or_else(unknown)?;
    let looked = tokio::task::spawn_blocking(move || files::look(&place, &asked.path, asked.list));
    match looked.await {
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

async fn all_passed(passed: Vec<Passed>) -> Result<AgentOutcome, Refusal> {
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

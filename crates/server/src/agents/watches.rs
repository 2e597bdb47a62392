//! Agents' requests that wait for changes of the variables that templates of their tasks show. Each variable that is sent has a
//! record in the audit log, which is synced before the response is sent.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_api::agent::{Down, TEMPLATE_WATCHES_MAX, VariablesWatched, WatchVariables};
use tokio::{
    sync::OwnedSemaphorePermit,
    task::AbortHandle,
    time::{Instant, sleep_until, timeout},
};

use super::{
    encode::frame,
    listen::ListenContext,
    outbound::Outbound,
    secrets::{GivenVariables, SecretsCaller},
};
use crate::{
    shared::State,
    watch::{Changes, Watch},
    workload::{READ_A_SECOND_MAX, keys_of, may_wait, not_watched, read_watched},
};

/// How long a request waits for a change; then the agent asks again. A random part of up to a quarter is added, so that requests that
/// began together do not all end together.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// How long a server that lags behind the one that answered last may take to come as far.
const BEHIND_MAX: Duration = Duration::from_secs(10);

/// The requests of one session, by tasks. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<OpenWatches>>);

#[derive(Default)]
struct OpenWatches {
    ended: bool,
    by_task: HashMap<(Vec<u8>, String), PendingWatch>,
}

/// A request that waits.
struct PendingWatch {
    request: u64,
    answering: AbortHandle,
    /// Its permit among those of all nodes.
    room: OwnedSemaphorePermit,
}

/// Who is answered, and how.
pub(super) struct Watcher {
    pub context: Arc<ListenContext>,
    pub by: SecretsCaller,
    /// The session's number on its connection.
    pub number: u32,
    pub outbound: Outbound,
}

impl Watches {
    /// Answers a request once there is something to say. It takes the place of another one of the same task.
    ///
    /// # Errors
    /// The refusal, where the request is over a limit.
    pub(super) fn begin(
        &self,
        watcher: Watcher,
        state: State,
        requested: WatchVariables,
    ) -> Result<(), VariablesWatched> {
        let request = requested.request;
        let refuse = |text: String| not_watched(request, text, true);
        if watcher.context.rates.for_watches(watcher.by.node).is_err() {
            return Err(refuse(format!(
                "more than {READ_A_SECOND_MAX} requests a second for templates of one node"
            )));
        }
        may_wait(&state, watcher.by.node, &requested)?;
        let task_key = (requested.alloc_id.clone(), requested.task.clone());
        let mut open = self.lock();
        if open.ended {
            return Ok(());
        }
        // What is replaced is not counted beside what replaces it.
        let before = open.by_task.remove(&task_key).map(PendingWatch::end);
        if open.by_task.len() >= TEMPLATE_WATCHES_MAX {
            return Err(refuse(format!(
                "templates of {TEMPLATE_WATCHES_MAX} tasks of one node wait, the limit: try again"
            )));
        }
        let Some(permit) = before.or_else(|| watcher.context.watches.clone().try_acquire_owned().ok()) else {
            return Err(refuse("too many templates of all nodes wait on this server: try again".to_owned()));
        };
        let (key, all) = (task_key.clone(), self.clone());
        // The lock is held until the task is registered, so that its end finds it.
        let answering = tokio::spawn(async move {
            let WatchAnswer { response, turn } = watcher.answer(&state, requested).await;
            let _ = watcher.outbound.send(frame(watcher.number, Down::Watched(response))).await;
            drop(turn);
            all.end_one(&task_key, request);
        });
        open.by_task.insert(key, PendingWatch { request, answering: answering.abort_handle(), room: permit });
        Ok(())
    }

    fn end_one(&self, task_key: &(Vec<u8>, String), request: u64) {
        let mut open = self.lock();
        if open.by_task.get(task_key).is_some_and(|last| last.request == request) {
            open.by_task.remove(task_key);
        }
    }

    /// The session is over.
    pub fn end(&self) {
        let mut open = self.lock();
        open.ended = true;
        open.by_task.drain().for_each(|(_, waiting)| drop(waiting.end()));
    }

    fn lock(&self) -> MutexGuard<'_, OpenWatches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingWatch {
    /// It is not answered any more.
    fn end(self) -> OwnedSemaphorePermit {
        self.answering.abort();
        self.room
    }
}

/// The response to an agent.
struct WatchAnswer {
    response: VariablesWatched,
    /// For as long as what was decrypted is in memory.
    turn: Option<AnswerPermit>,
}

/// Room among the answers that are made at a time.
struct AnswerPermit {
    _of_connection: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl From<VariablesWatched> for WatchAnswer {
    /// One that holds nothing of variables.
    fn from(response: VariablesWatched) -> Self {
        Self { response, turn: None }
    }
}

impl Watcher {
    /// Waits until there is something that the agent has not seen.
    async fn answer(&self, state: &State, requested: WatchVariables) -> WatchAnswer {
        let (node, request) = (self.by.node, requested.request);
        if let Err(behind) = catch_up(state, requested.index).await {
            return not_watched(request, behind, true).into();
        }
        let keys = match keys_of(state, node, &requested) {
            Ok(keys) => keys,
            Err(refused) => return refused.into(),
        };
        let watches: Vec<Watch<'_>> = keys.into_iter().map(|key| state.watchers.watch(key)).collect();
        let mut changes = Changes::of(&watches);
        let deadline = Instant::now() + patience(state);
        let requested = Arc::new(requested);
        loop {
            let permit = self.turn().await;
            let template = {
                let (state, requested) = (state.clone(), requested.clone());
                // The turn goes along: what was begun is done to its end, also where nobody waits for it any more.
                tokio::task::spawn_blocking(move || (read_watched(&state, node, &requested), permit)).await
            };
            let Ok((template, permit)) = template else {
                let response = not_watched(request, "internal error: see the server's log".to_owned(), true);
                return response.into();
            };
            if let Some(template) = template {
                let given = GivenVariables { variables: &template.variables, denied: template.denied };
                return match self.by.record(state, &requested.alloc_id, &requested.task, given).await {
                    Ok(()) => WatchAnswer { response: template.response, turn: Some(permit) },
                    Err(unrecorded) => not_watched(request, unrecorded.to_string(), true).into(),
                };
            }
            drop(permit);
            tokio::select! {
                () = changes.next() => {}
                () = sleep_until(deadline) => {
                    return VariablesWatched { request, unchanged: true, ..VariablesWatched::default() }.into();
                }
            }
        }
    }

    /// One change may wake thousands. An agent that does not read its responses delays its own tasks, and no others.
    async fn turn(&self) -> AnswerPermit {
        let of_connection = self.outbound.turn().await;
        let of_all = self.context.variable_reads.clone().acquire_owned().await.ok();
        AnswerPermit { _of_connection: of_connection, _of_all: of_all }
    }
}

fn patience(state: &State) -> Duration {
    let jitter = state.engine.mint_id() % (WAIT_MAX.as_nanos() / 4);
    WAIT_MAX + Duration::from_nanos(u64::try_from(jitter).unwrap_or_default())
}

/// Waits until this server's log has come as far as that of the one that answered last: what is older than what a task shows is no
/// change, and would restart the task with it.
///
/// # Errors
/// Why it has not: for users.
async fn catch_up(state: &State, index: u64) -> Result<(), String> {
    if state.view().store.index().0 >= index {
        return Ok(());
    }
    let behind = |why: &str| format!("this server has not caught up with what the task was shown: {why}");
    // Once all is read here that any server has acknowledged, an index beyond it is one of another cluster, of which this one goes on.
    let fresh = timeout(BEHIND_MAX, state.engine.fresh()).await;
    fresh.unwrap_or_else(|_| Err("try again in a moment".to_owned())).map_err(|why| behind(&why))
}

//! Agents that wait for changes of what templates of their tasks show. Each variable that one is given leaves a record in the audit
//! log, which is on disk before the agent is answered.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_api::agent::{Down, TEMPLATE_WATCHES_MAX, VariablesWatched, WatchVariables};
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, sleep_until},
};

use super::{
    encode::frame,
    listen::Context,
    outbound::Outbound,
    secrets::{By, Given},
};
use crate::{
    shared::State,
    watch::{Changes, Watch},
    workload::{READ_A_SECOND_MAX, keys_of, look, not_watched},
};

/// How long a request waits for a change; the agent asks again then. Up to a quarter more, so that those who began together do not
/// all come back together.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// How long a server that lags behind the one that answered last may take to come as far, and how often that is looked at.
const BEHIND_MAX: Duration = Duration::from_secs(10);
const BEHIND_PAUSE: Duration = Duration::from_millis(50);

/// The requests of one session, by tasks. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    ended: bool,
    by_task: HashMap<(Vec<u8>, String), (u64, AbortHandle)>,
}

/// Who is answered, and how.
pub(super) struct Watcher {
    pub context: Arc<Context>,
    pub by: By,
    /// Of the session.
    pub number: u32,
    pub outbound: Outbound,
}

impl Watches {
    /// Answers a request once there is something to say. It takes the place of another one of the same task.
    ///
    /// # Errors
    /// The answer, where there is no room for the request.
    pub(super) fn begin(
        &self,
        watcher: Watcher,
        state: State,
        asked: WatchVariables,
    ) -> Result<(), VariablesWatched> {
        let request = asked.request;
        let refuse = |text: String| not_watched(request, text, true);
        if watcher.context.asked.for_watches(watcher.by.node).is_err() {
            return Err(refuse(format!(
                "more than {READ_A_SECOND_MAX} requests a second for templates of one node"
            )));
        }
        let Ok(room) = watcher.context.watches.clone().try_acquire_owned() else {
            return Err(refuse("too many templates of all nodes wait on this server: try again".to_owned()));
        };
        let (of, all) = ((asked.alloc_id.clone(), asked.task.clone()), self.clone());
        let mut open = self.lock();
        if open.ended {
            return Ok(());
        }
        if let Some((_, before)) = open.by_task.remove(&of) {
            before.abort();
        }
        if open.by_task.len() >= TEMPLATE_WATCHES_MAX {
            return Err(refuse(format!(
                "templates of {TEMPLATE_WATCHES_MAX} tasks of one node wait, the limit: try again"
            )));
        }
        let key = of.clone();
        let waiting = tokio::spawn(async move {
            let Watcher { context, by, number, outbound } = watcher;
            let told = answer(&context, &state, &by, asked).await;
            let _ = outbound.send(frame(number, Down::Watched(told))).await;
            all.end_one(&of, request);
            drop(room);
        });
        open.by_task.insert(key, (request, waiting.abort_handle()));
        Ok(())
    }

    fn end_one(&self, of: &(Vec<u8>, String), request: u64) {
        let mut open = self.lock();
        if open.by_task.get(of).is_some_and(|(last, _)| *last == request) {
            open.by_task.remove(of);
        }
    }

    /// The session is over.
    pub fn end(&self) {
        let mut open = self.lock();
        open.ended = true;
        open.by_task.drain().for_each(|(_, (_, waiting))| waiting.abort());
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until there is something that the agent has not seen.
async fn answer(context: &Context, state: &State, by: &By, asked: WatchVariables) -> VariablesWatched {
    let request = asked.request;
    catch_up(state, asked.index).await;
    let keys = match keys_of(state, by.node, &asked) {
        Ok(keys) => keys,
        Err(refused) => return refused,
    };
    let watches: Vec<Watch<'_>> = keys.into_iter().map(|key| state.watchers.watch(key)).collect();
    let mut changes = Changes::of(&watches);
    let jitter = state.engine.mint_id() % (WAIT_MAX.as_nanos() / 4);
    let deadline =
        Instant::now() + WAIT_MAX + Duration::from_nanos(u64::try_from(jitter).unwrap_or_default());
    let asked = Arc::new(asked);
    loop {
        let looked = {
            // One change may wake thousands.
            let _room = context.secrets.acquire().await;
            let (state, node, asked) = (state.clone(), by.node, asked.clone());
            tokio::task::spawn_blocking(move || look(&state, node, &asked)).await
        };
        match looked {
            Ok(Some(looking)) => {
                let given = Given { variables: &looking.variables, denied: looking.denied };
                return match by.record(state, &asked.alloc_id, &asked.task, given).await {
                    Ok(()) => looking.told,
                    Err(untold) => not_watched(request, untold.to_string(), true),
                };
            }
            Ok(None) => {}
            Err(_) => {
                return not_watched(request, "internal error: see the server's log".to_owned(), true);
            }
        }
        tokio::select! {
            () = changes.next() => {}
            () = sleep_until(deadline) => {
                return VariablesWatched { request, unchanged: true, ..VariablesWatched::default() };
            }
        }
    }
}

/// Waits until this server has come as far as the one that answered last: what is older than what a task shows is no change.
async fn catch_up(state: &State, index: u64) {
    let deadline = Instant::now() + BEHIND_MAX;
    while state.view().store.index().0 < index && Instant::now() < deadline {
        sleep(BEHIND_PAUSE).await;
    }
}

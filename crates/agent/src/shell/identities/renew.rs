//! A task's identity tokens: obtained before it starts, renewed while it runs.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use berth_api::agent::{IdentityChange, IdentitySpec, SignedToken, TaskEventKind};
use tokio::sync::mpsc;

use super::held_tokens::{HeldToken, TaskTokens, environment};
use crate::disk;
use crate::lifecycle::{Event, StartFailure, StartFailureKind};
use crate::shell::data_dir::random_number;
use crate::shell::runner::{Runner, TaskCommand, stop_requested};
use crate::shell::secret_files;
use crate::shell::server_requests::{RequestError, RetryPause, until_available};

/// What is asked for together: tokens that are due within this time.
const RENEW_AHEAD_NS: u64 = 1_000_000_000;

/// When a task's tokens are due, for the agent that comes after: in the keeper's directory, and nothing in it is secret.
const RECORD: &str = "tokens";

/// When the tokens of a task are to be renewed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct TokensRecord {
    /// By the names of identities: nanoseconds since the Unix epoch.
    #[prost(btree_map = "string, uint64", tag = "1")]
    renew_ns: BTreeMap<String, u64>,
}

/// Has the tokens of a task that starts, and its files written; answers with what it finds in its environment. While no
/// server signs, the start waits, and says so; one that is asked to end waits no longer.
pub(in crate::shell) async fn obtain(
    runner: &Runner,
    commands: &mut mpsc::Receiver<TaskCommand>,
) -> Result<BTreeMap<String, String>, StartFailure> {
    let identities = &runner.spec().identities;
    if identities.is_empty() {
        return Ok(BTreeMap::new());
    }
    tokio::select! {
        tokens = have_all(runner) => Ok(environment(identities, &*tokens?)),
        () = stop_requested(commands) => {
            let message = "get the task's tokens: the task was stopped before they were here".to_owned();
            Err(StartFailure { kind: StartFailureKind::Recoverable, message })
        }
    }
}

async fn have_all(runner: &Runner) -> Result<Arc<TaskTokens>, StartFailure> {
    until_available(runner, "get the task's tokens", || have_good(runner)).await?;
    let failed = |message| StartFailure { kind: StartFailureKind::Recoverable, message };
    runner.write_all().await.map_err(failed)
}

/// Returns once the task holds tokens that are good for a while.
async fn have_good(runner: &Runner) -> Result<(), RequestError> {
    let tokens_of_task = runner.context.held_tokens.of(runner.of);
    let at_ns = runner.context.clock.now_ns();
    let is_good = |identity: &&IdentitySpec, until: fn(&HeldToken) -> u64| {
        tokens_of_task.get(&identity.name).is_some_and(|token| until(token) > at_ns)
    };
    let identities = &runner.spec().identities;
    let due = identities.iter().filter(|identity| !is_good(identity, |token| token.renew_ns));
    match fetch(runner, due.map(|identity| identity.name.clone()).collect()).await {
        // What it holds is good for a while yet: no server is needed for a task to restart.
        Err(_) if identities.iter().all(|identity| is_good(&identity, |token| token.expires_ns)) => Ok(()),
        fetched => fetched.map(drop),
    }
}

/// Asks for tokens, and holds them from then on.
async fn fetch(runner: &Runner, identities: Vec<String>) -> Result<Arc<TaskTokens>, RequestError> {
    if identities.is_empty() {
        return Ok(runner.context.held_tokens.of(runner.of));
    }
    let signed =
        runner.context.server_client.tokens(runner.of.alloc, &runner.spec().name, identities).await?;
    let now_ns = runner.context.clock.now_ns();
    let held = |token: SignedToken| (token.identity.clone(), HeldToken::new(token, now_ns, random_number()));
    Ok(runner.context.held_tokens.add(runner.of, signed.into_iter().map(held).collect()))
}

impl Runner {
    /// Writes the files of all tokens that the task holds, and down when they are due.
    async fn write_all(&self) -> Result<Arc<TaskTokens>, String> {
        let held = self.context.held_tokens.of(self.of);
        let (tokens, dir) = (held.clone(), self.keeper_dir.clone());
        let written = self.blocking(move |_, run, of, paths| {
            let spec = &run.group.tasks[usize::from(of.task)];
            for identity in spec.identities.iter().filter(|identity| !identity.file.is_empty()) {
                if let Some(held) = tokens.get(&identity.name) {
                    secret_files::write(paths, &spec.name, &identity.file, &held.token)?;
                }
            }
            let renew_ns = tokens.iter().map(|(name, token)| (name.clone(), token.renew_ns)).collect();
            disk::write(&dir, RECORD, &TokensRecord { renew_ns })?;
            Ok(())
        });
        written.await.map_err(|failure| failure.message)?;
        Ok(held)
    }
}

/// Does what a task's life consists of, and keeps its tokens fresh meanwhile.
pub(in crate::shell) async fn alongside(runner: &Runner, life: impl Future<Output = ()>) {
    // Boxed: most tasks have none, and pay for a pointer.
    let renewing: Pin<Box<dyn Future<Output = ()> + Send + '_>> =
        if runner.spec().identities.is_empty() { Box::pin(pending()) } else { Box::pin(renew(runner)) };
    tokio::select! {
        () = life => {}
        () = renewing => {}
    }
}

/// Whether anything comes of a new token: an environment stays as it is.
fn is_renewed(identity: &IdentitySpec) -> bool {
    !identity.file.is_empty() || identity.change() != IdentityChange::Noop
}

/// Never ends.
async fn renew(runner: &Runner) {
    let clock = runner.context.clock;
    let mut due_at = due_times(runner);
    let mut pause = RetryPause::default();
    loop {
        let first_ns = due_at.values().min().copied();
        clock.sleep_until(first_ns).await;
        let renew_until_ns = clock.now_ns() + RENEW_AHEAD_NS;
        let due: Vec<String> = due_at
            .iter()
            .filter(|(_, at_ns)| **at_ns <= renew_until_ns)
            .map(|(name, _)| name.clone())
            .collect();
        let renewed = match fetch(runner, due.clone()).await {
            Ok(_) => runner.write_all().await,
            Err(RequestError { text, .. }) => Err(text),
        };
        match renewed {
            Ok(held) => {
                pause.reset();
                for name in &due {
                    let at_ns = held.get(name).map_or(u64::MAX, |token| token.renew_ns);
                    due_at.insert(name.clone(), at_ns);
                }
                notify_task(runner, &due).await;
            }
            Err(text) => {
                tracing::warn!(of = ?runner.of, text, "could not renew a task's tokens");
                // One line for people, however often it is tried.
                if pause.is_first() {
                    let text = format!("renew the task's tokens: {text}; it is tried again");
                    runner.note(TaskEventKind::HookFailed, text);
                }
                pause.wait().await;
            }
        }
    }
}

/// When the tokens are due that are worth renewing: as they are held, or as an earlier run of the agent wrote down; at once
/// where neither says.
fn due_times(runner: &Runner) -> BTreeMap<String, u64> {
    let held = runner.context.held_tokens.of(runner.of);
    let record: TokensRecord = disk::read(&runner.keeper_dir, RECORD).ok().flatten().unwrap_or_default();
    let due = |identity: &IdentitySpec| {
        let held = held.get(&identity.name).map(|token| token.renew_ns);
        let at_ns = held.or_else(|| record.renew_ns.get(&identity.name).copied()).unwrap_or_default();
        (identity.name.clone(), at_ns)
    };
    runner.spec().identities.iter().filter(|identity| is_renewed(identity)).map(due).collect()
}

/// Restarts the task, or sends it signals, if its job wants that for any of these.
async fn notify_task(runner: &Runner, renewed: &[String]) {
    let identities = runner.spec().identities.iter();
    let mut signals = Vec::new();
    for identity in identities.filter(|identity| renewed.contains(&identity.name)) {
        match identity.change() {
            IdentityChange::Noop => {}
            IdentityChange::Restart => {
                let why = format!("Identity {:?} was renewed", identity.name);
                return runner.report(Event::RestartRequested { of: runner.of, why }).await;
            }
            IdentityChange::Signal => {
                let signal = crate::signals::number(&identity.signal);
                signals.extend(signal.filter(|signal| !signals.contains(signal)));
            }
        }
    }
    for signal in signals {
        let Some(passed) = runner.pass_signal(signal).await else { continue };
        let signal = crate::signals::name(signal);
        let message = match passed {
            Ok(()) => format!("Its tokens were renewed: task was sent signal {signal}"),
            Err(why) => format!("Its tokens were renewed, and signal {signal} was not sent: {why}"),
        };
        runner.note(TaskEventKind::Signaling, message);
    }
}

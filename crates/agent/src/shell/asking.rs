//! What tasks need of a server before they start: tokens, and what is in variables. Whoever prepares a task does not have the
//! connection, the agent has.

use std::collections::HashMap;
use std::time::Duration;

use berth_api::agent::{
    AllocId, ReadSecrets, SecretItems, SecretsRead, SignTokens, SignedToken, SignedTokens, TaskEventKind, Up,
    VariableQuery, VariablesWatched, WatchVariables,
};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::Agent;
use super::data_dir::random_number;
use super::runner::Runner;
use crate::lifecycle::{StartFailure, StartFailureKind};

/// Requests that are under way; the tasks of others wait.
const ASKS_MAX: usize = 16;

/// How long a server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long a server may take that has something to say, and may have to catch up first; and one that waits for a change.
const WATCH_MAX: Duration = Duration::from_secs(20);
const CHANGE_MAX: Duration = Duration::from_secs(450);

/// Between two tries, at first and at most.
const AGAIN_MIN: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// How long a start waits for what a server has before it counts as failed.
const START_MAX: Duration = Duration::from_secs(300);

/// Why a server gave nothing, and whether that may pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Unanswered {
    /// In words, what happened.
    pub(super) text: String,
    pub(super) retry: bool,
    /// What was given before is not to be used any more.
    pub(super) taken: bool,
    /// Names what a server found and does not give: no other answer comes before that is something else. Empty where others may.
    pub(super) seen: Vec<u8>,
}

impl Unanswered {
    pub(super) fn for_now(text: &str) -> Self {
        Self { text: text.to_owned(), retry: true, ..Self::default() }
    }
}

type Answer<T> = Result<Vec<T>, Unanswered>;

/// What a server is asked for a task.
#[derive(Debug)]
pub(super) struct Asked {
    alloc: AllocId,
    task: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Tokens { identities: Vec<String>, answer: oneshot::Sender<Answer<SignedToken>> },
    Secrets(oneshot::Sender<Answer<SecretItems>>),
    Variables { asked: Vec<VariableQuery>, seen: Vec<u8>, index: u64, answer: WatchedSender },
}

type WatchedSender = oneshot::Sender<Result<VariablesWatched, Unanswered>>;

/// Asks a server for what tasks need.
#[derive(Debug)]
pub(super) struct Asker {
    asks: mpsc::Sender<Asked>,
    room: Semaphore,
}

impl Asker {
    /// One, and what it asks.
    pub(super) fn new() -> (Self, mpsc::Receiver<Asked>) {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        (Self { asks, room: Semaphore::new(ASKS_MAX) }, asked)
    }

    /// The tokens of some of a task's identities, in that order.
    pub(super) async fn tokens(
        &self,
        alloc: AllocId,
        task: &str,
        identities: Vec<String>,
    ) -> Answer<SignedToken> {
        let wanted = identities.clone();
        let tokens = self.ask(alloc, task, |answer| What::Tokens { identities, answer }).await?;
        let named = tokens.iter().map(|token| &token.identity);
        if named.eq(&wanted) { Ok(tokens) } else { Err(Unanswered::for_now("the server gave other tokens")) }
    }

    /// What is in the secrets of a task.
    pub(super) async fn secrets(&self, alloc: AllocId, task: &str) -> Answer<SecretItems> {
        self.ask(alloc, task, What::Secrets).await
    }

    /// What templates of a task show, once that is other than what was seen. Those that wait are as many as there are tasks.
    pub(super) async fn variables(
        &self,
        alloc: AllocId,
        task: &str,
        asked: Vec<VariableQuery>,
        seen: Vec<u8>,
        index: u64,
    ) -> Result<VariablesWatched, Unanswered> {
        let most = if seen.is_empty() { WATCH_MAX } else { CHANGE_MAX };
        let (answer, answered) = oneshot::channel();
        let what = What::Variables { asked, seen, index, answer };
        self.send(Asked { alloc, task: task.to_owned(), what }).await?;
        received(answered, most).await
    }

    async fn send(&self, asked: Asked) -> Result<(), Unanswered> {
        self.asks.send(asked).await.map_err(|_| Unanswered::for_now("the agent stops"))
    }

    async fn ask<T>(
        &self,
        alloc: AllocId,
        task: &str,
        what: impl FnOnce(oneshot::Sender<Answer<T>>) -> What,
    ) -> Answer<T> {
        let _permit = self.room.acquire().await;
        let (answer, answered) = oneshot::channel();
        self.send(Asked { alloc, task: task.to_owned(), what: what(answer) }).await?;
        received(answered, ANSWER_MAX).await
    }
}

async fn received<T>(
    answered: oneshot::Receiver<Result<T, Unanswered>>,
    most: Duration,
) -> Result<T, Unanswered> {
    let silent = "the server does not answer: it may be older than this agent";
    let answered = timeout(most, answered).await.map_err(|_| Unanswered::for_now(silent))?;
    answered.map_err(|_| Unanswered::for_now("the connection to the server was lost meanwhile"))?
}

/// The requests that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Asking {
    last: u64,
    tokens: Waiting<Answer<SignedToken>>,
    secrets: Waiting<Answer<SecretItems>>,
    watches: Waiting<Result<VariablesWatched, Unanswered>>,
}

impl Agent {
    /// Passes a request on to the server.
    pub(super) fn on_asked(&mut self, asked: Asked) {
        let Asked { alloc, task, what } = asked;
        let line = self.up.as_ref().map(|up| up.replies.clone());
        let asking = &mut self.asking;
        let nobody = || Unanswered::for_now("the agent is connected to no server");
        asking.last += 1;
        let (request, secret) = (asking.last, self.identity.secret.clone());
        let alloc_id = alloc.0.to_vec();
        let message = match what {
            What::Tokens { answer, .. } if line.is_none() => return drop(answer.send(Err(nobody()))),
            What::Secrets(answer) if line.is_none() => return drop(answer.send(Err(nobody()))),
            What::Variables { answer, .. } if line.is_none() => return drop(answer.send(Err(nobody()))),
            What::Tokens { identities, answer } => {
                asking.tokens.add(request, answer);
                Up::Sign(SignTokens { request, secret, alloc_id, task, identities })
            }
            What::Secrets(answer) => {
                asking.secrets.add(request, answer);
                Up::Secrets(ReadSecrets { request, secret, alloc_id, task })
            }
            What::Variables { asked, seen, index, answer } => {
                asking.watches.add(request, answer);
                Up::Watch(WatchVariables { request, secret, alloc_id, task, queries: asked, seen, index })
            }
        };
        // Bounded by how many may ask; what people read goes by the same line and is not held up.
        tokio::spawn(async move {
            if let Some(line) = line {
                let _ = line.send(message).await;
            }
        });
    }

    /// The server has signed tokens, or not.
    pub(super) fn on_signed(&mut self, signed: SignedTokens) {
        let SignedTokens { request, tokens, refused, retry } = signed;
        let answer = given(tokens, Unanswered { text: refused, retry, ..Unanswered::default() });
        self.asking.tokens.answer(request, answer);
    }

    /// The server has read secrets, or not.
    pub(super) fn on_secrets(&mut self, read: SecretsRead) {
        let SecretsRead { request, secrets, refused, retry, taken } = read;
        let answer = given(secrets, Unanswered { text: refused, retry, taken, ..Unanswered::default() });
        self.asking.secrets.answer(request, answer);
    }

    /// The server says what templates show, or not.
    pub(super) fn on_watched(&mut self, watched: VariablesWatched) {
        let request = watched.request;
        let answer = if watched.refused.is_empty() {
            Ok(watched)
        } else {
            let VariablesWatched { refused: text, retry, seen, .. } = watched;
            Err(Unanswered { text, retry, seen, ..Unanswered::default() })
        };
        self.asking.watches.answer(request, answer);
    }

    /// No answer will come any more.
    pub(super) fn cancel_asking(&mut self) {
        let Asking { tokens, secrets, watches, .. } = &mut self.asking;
        (*tokens, *secrets, *watches) = Default::default();
    }
}

fn given<T>(things: Vec<T>, refused: Unanswered) -> Answer<T> {
    if refused.text.is_empty() { Ok(things) } else { Err(refused) }
}

/// Asks for what a task needs to start until it is had: while it cannot be had, the start waits, and says so.
pub(super) async fn until_had<T, F>(
    runner: &Runner,
    doing: &str,
    ask: impl Fn() -> F,
) -> Result<T, StartFailure>
where
    F: Future<Output = Result<T, Unanswered>>,
{
    let clock = runner.context.clock;
    let give_up_ns = clock.now_ns() + START_MAX.as_nanos() as u64;
    let (mut again, mut said) = (Again::default(), String::new());
    loop {
        let Unanswered { text, retry, .. } = match ask().await {
            Ok(had) => return Ok(had),
            Err(unanswered) => unanswered,
        };
        let text = format!("{doing}: {text}");
        if !retry || clock.now_ns() > give_up_ns {
            return Err(StartFailure { kind: StartFailureKind::Recoverable, message: text });
        }
        // Once for each reason: a task's history is short.
        if said != text {
            runner.note(TaskEventKind::HookFailed, format!("{text}; it is tried again"));
            said = text;
        }
        again.pause().await;
    }
}

/// Pauses between tries, longer each time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Again {
    next: Duration,
    most: Duration,
}

impl Default for Again {
    fn default() -> Self {
        Self::up_to(AGAIN_MAX)
    }
}

impl Again {
    /// None of them is much longer than that.
    pub(super) fn up_to(most: Duration) -> Self {
        Self { next: AGAIN_MIN, most }
    }

    /// It has succeeded.
    pub(super) fn reset(&mut self) {
        self.next = AGAIN_MIN;
    }

    /// Whether it has failed for the first time.
    pub(super) fn is_first(&self) -> bool {
        self.next == AGAIN_MIN
    }

    /// The next pause. What failed together is not tried together.
    pub(super) fn next(&mut self) -> Duration {
        let jitter = self.next.mul_f64(random_number() as f64 / u64::MAX as f64 / 2.0);
        let pause = self.next + jitter;
        self.next = (self.next * 2).min(self.most);
        pause
    }

    /// Waits for it.
    pub(super) async fn pause(&mut self) {
        sleep(self.next()).await;
    }
}

/// Requests that wait for their answers, by their numbers. Whoever asked may have left: a task was stopped, or waited for too long.
#[derive(Debug)]
struct Waiting<T> {
    answers: HashMap<u64, oneshot::Sender<T>>,
    /// With so many, those that were left are taken out: as many are added before that as are looked at then.
    sweep_at: usize,
}

/// With fewer requests, it does not matter how many were left.
const SWEEP_MIN: usize = 64;

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { answers: HashMap::new(), sweep_at: SWEEP_MIN }
    }
}

impl<T> Waiting<T> {
    fn add(&mut self, request: u64, answer: oneshot::Sender<T>) {
        if self.answers.len() >= self.sweep_at {
            self.answers.retain(|_, answer| !answer.is_closed());
            self.sweep_at = SWEEP_MIN.max(2 * self.answers.len());
        }
        self.answers.insert(request, answer);
    }

    fn answer(&mut self, request: u64, with: T) {
        if let Some(answer) = self.answers.remove(&request) {
            let _ = answer.send(with);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_were_left_are_taken_out_now_and_then() {
        let mut waiting = Waiting::default();
        let mut kept = Vec::new();
        for request in 0..10_000 {
            let (answer, answered) = oneshot::channel();
            waiting.add(request, answer);
            // Whoever asked for the others has left.
            if request % 100 == 0 {
                kept.push((request, answered));
            }
        }
        assert!(waiting.answers.len() < 4 * SWEEP_MIN + 2 * kept.len(), "{}", waiting.answers.len());
        for (request, mut answered) in kept {
            waiting.answer(request, request);
            assert_eq!(answered.try_recv(), Ok(request));
        }
    }

    #[test]
    fn pauses_grow() {
        let mut again = Again::up_to(AGAIN_MIN * 3);
        assert!(again.is_first());
        for base in [1, 2, 3, 3] {
            let pause = again.next();
            assert!(pause >= AGAIN_MIN * base && pause <= AGAIN_MIN * base * 3 / 2, "{pause:?}");
        }
        assert!(!again.is_first());
        again.reset();
        assert!(again.is_first());
    }
}

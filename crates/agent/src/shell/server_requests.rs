//! Requests to a server for what tasks need before they start: tokens, and the contents of variables. Tasks are prepared by futures
//! that have no access to the connection, so their requests go through the agent's loop.

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

/// Requests at a time; further tasks wait.
const REQUESTS_MAX: usize = 16;

/// How long a server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long a server may take that has data, and may have to catch up first; and one that waits for a change.
const WATCH_MAX: Duration = Duration::from_secs(20);
const CHANGE_MAX: Duration = Duration::from_secs(450);

/// The shortest and the longest pause between two tries.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(500);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long a start waits for what a server has before it counts as failed.
const START_MAX: Duration = Duration::from_secs(300);

/// Why a request failed, and whether trying again may help.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RequestError {
    /// In words, what happened.
    pub(super) text: String,
    pub(super) retry: bool,
    /// What was granted before must not be used any more.
    pub(super) taken: bool,
    /// Names what a server found and does not give: no other answer comes before that is something else. Empty where others may.
    pub(super) seen: Vec<u8>,
}

impl RequestError {
    pub(super) fn for_now(text: &str) -> Self {
        Self { text: text.to_owned(), retry: true, ..Self::default() }
    }
}

type ServerResult<T> = Result<Vec<T>, RequestError>;

/// A request to a server on behalf of a task.
#[derive(Debug)]
pub(super) struct ServerRequest {
    alloc: AllocId,
    task: String,
    kind: RequestKind,
}

#[derive(Debug)]
enum RequestKind {
    Tokens { identities: Vec<String>, answer: oneshot::Sender<ServerResult<SignedToken>> },
    Secrets(oneshot::Sender<ServerResult<SecretItems>>),
    Variables { queries: Vec<VariableQuery>, seen: Vec<u8>, index: u64, answer: WatchedSender },
}

type WatchedSender = oneshot::Sender<Result<VariablesWatched, RequestError>>;

/// Sends requests to the server through the agent's loop, which has the connection.
#[derive(Debug)]
pub(super) struct ServerClient {
    sender: mpsc::Sender<ServerRequest>,
    slots: Semaphore,
}

impl ServerClient {
    /// A client, and the receiver of its requests.
    pub(super) fn new() -> (Self, mpsc::Receiver<ServerRequest>) {
        let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
        (Self { sender, slots: Semaphore::new(REQUESTS_MAX) }, receiver)
    }

    /// The tokens of some of a task's identities, in that order.
    pub(super) async fn tokens(
        &self,
        alloc: AllocId,
        task: &str,
        identities: Vec<String>,
    ) -> ServerResult<SignedToken> {
        let expected = identities.clone();
        let tokens = self.request(alloc, task, |answer| RequestKind::Tokens { identities, answer }).await?;
        let named = tokens.iter().map(|token| &token.identity);
        if named.eq(&expected) {
            Ok(tokens)
        } else {
            Err(RequestError::for_now("the server gave other tokens"))
        }
    }

    /// What is in the secrets of a task.
    pub(super) async fn secrets(&self, alloc: AllocId, task: &str) -> ServerResult<SecretItems> {
        self.request(alloc, task, RequestKind::Secrets).await
    }

    /// What templates of a task show, once that is other than what was seen. Those that wait are as many as there are tasks.
    pub(super) async fn variables(
        &self,
        alloc: AllocId,
        task: &str,
        queries: Vec<VariableQuery>,
        seen: Vec<u8>,
        index: u64,
    ) -> Result<VariablesWatched, RequestError> {
        let most = if seen.is_empty() { WATCH_MAX } else { CHANGE_MAX };
        let (answer, answered) = oneshot::channel();
        let kind = RequestKind::Variables { queries, seen, index, answer };
        self.send(ServerRequest { alloc, task: task.to_owned(), kind }).await?;
        received(answered, most).await
    }

    async fn send(&self, request: ServerRequest) -> Result<(), RequestError> {
        self.sender.send(request).await.map_err(|_| RequestError::for_now("the agent stops"))
    }

    async fn request<T>(
        &self,
        alloc: AllocId,
        task: &str,
        kind: impl FnOnce(oneshot::Sender<ServerResult<T>>) -> RequestKind,
    ) -> ServerResult<T> {
        let _permit = self.slots.acquire().await;
        let (answer, answered) = oneshot::channel();
        self.send(ServerRequest { alloc, task: task.to_owned(), kind: kind(answer) }).await?;
        received(answered, ANSWER_MAX).await
    }
}

async fn received<T>(
    answered: oneshot::Receiver<Result<T, RequestError>>,
    most: Duration,
) -> Result<T, RequestError> {
    let silent = "the server does not answer: it may be older than this agent";
    let answered = timeout(most, answered).await.map_err(|_| RequestError::for_now(silent))?;
    answered.map_err(|_| RequestError::for_now("the connection to the server was lost meanwhile"))?
}

/// The requests that wait for replies.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    last: u64,
    tokens: PendingReplies<ServerResult<SignedToken>>,
    secrets: PendingReplies<ServerResult<SecretItems>>,
    watches: PendingReplies<Result<VariablesWatched, RequestError>>,
}

impl Agent {
    /// Sends a request to the server.
    pub(super) fn on_request(&mut self, request: ServerRequest) {
        let ServerRequest { alloc, task, kind } = request;
        let up = self.up.as_ref().map(|up| up.replies.clone());
        let pending_requests = &mut self.pending_requests;
        let nobody = || RequestError::for_now("the agent is connected to no server");
        pending_requests.last += 1;
        let (request, secret) = (pending_requests.last, self.identity.secret.clone());
        let alloc_id = alloc.0.to_vec();
        let message = match kind {
            RequestKind::Tokens { answer, .. } if up.is_none() => return drop(answer.send(Err(nobody()))),
            RequestKind::Secrets(answer) if up.is_none() => return drop(answer.send(Err(nobody()))),
            RequestKind::Variables { answer, .. } if up.is_none() => {
                return drop(answer.send(Err(nobody())));
            }
            RequestKind::Tokens { identities, answer } => {
                pending_requests.tokens.add(request, answer);
                Up::Sign(SignTokens { request, secret, alloc_id, task, identities })
            }
            RequestKind::Secrets(answer) => {
                pending_requests.secrets.add(request, answer);
                Up::Secrets(ReadSecrets { request, secret, alloc_id, task })
            }
            RequestKind::Variables { queries, seen, index, answer } => {
                pending_requests.watches.add(request, answer);
                Up::Watch(WatchVariables { request, secret, alloc_id, task, queries, seen, index })
            }
        };
        // Bounded by how many may ask; what people read goes by the same line and is not held up.
        tokio::spawn(async move {
            if let Some(up) = up {
                let _ = up.send(message).await;
            }
        });
    }

    /// The server has signed tokens, or not.
    pub(super) fn on_signed(&mut self, signed: SignedTokens) {
        let SignedTokens { request, tokens, refused, retry } = signed;
        let answer = unless_refused(tokens, RequestError { text: refused, retry, ..RequestError::default() });
        self.pending_requests.tokens.answer(request, answer);
    }

    /// The server has read secrets, or not.
    pub(super) fn on_secrets(&mut self, read: SecretsRead) {
        let SecretsRead { request, secrets, refused, retry, taken } = read;
        let answer =
            unless_refused(secrets, RequestError { text: refused, retry, taken, ..RequestError::default() });
        self.pending_requests.secrets.answer(request, answer);
    }

    /// The server has sent data for templates, or refused.
    pub(super) fn on_watched(&mut self, watched: VariablesWatched) {
        let request = watched.request;
        let answer = if watched.refused.is_empty() {
            Ok(watched)
        } else {
            let VariablesWatched { refused: text, retry, seen, .. } = watched;
            Err(RequestError { text, retry, seen, ..RequestError::default() })
        };
        self.pending_requests.watches.answer(request, answer);
    }

    /// No answer will come any more.
    pub(super) fn cancel_requests(&mut self) {
        let PendingRequests { tokens, secrets, watches, .. } = &mut self.pending_requests;
        (*tokens, *secrets, *watches) = Default::default();
    }
}

fn unless_refused<T>(things: Vec<T>, refused: RequestError) -> ServerResult<T> {
    if refused.text.is_empty() { Ok(things) } else { Err(refused) }
}

/// Requests what a task needs to start until it is available: meanwhile the start waits, and an event says why.
pub(super) async fn until_available<T, F>(
    runner: &Runner,
    doing: &str,
    request: impl Fn() -> F,
) -> Result<T, StartFailure>
where
    F: Future<Output = Result<T, RequestError>>,
{
    let clock = runner.context.clock;
    let give_up_ns = clock.now_ns() + START_MAX.as_nanos() as u64;
    let (mut pause, mut last_note) = (RetryPause::default(), String::new());
    loop {
        let RequestError { text, retry, .. } = match request().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let text = format!("{doing}: {text}");
        if !retry || clock.now_ns() > give_up_ns {
            return Err(StartFailure { kind: StartFailureKind::Recoverable, message: text });
        }
        // Once for each reason: a task's history is short.
        if last_note != text {
            runner.note(TaskEventKind::HookFailed, format!("{text}; it is tried again"));
            last_note = text;
        }
        pause.wait().await;
    }
}

/// Pauses between tries, longer each time.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPause {
    next: Duration,
    most: Duration,
}

impl Default for RetryPause {
    fn default() -> Self {
        Self::up_to(RETRY_PAUSE_MAX)
    }
}

impl RetryPause {
    /// None of them is much longer than that.
    pub(super) fn up_to(most: Duration) -> Self {
        Self { next: RETRY_PAUSE_MIN, most }
    }

    /// Starts again with the shortest pause, after a success.
    pub(super) fn reset(&mut self) {
        self.next = RETRY_PAUSE_MIN;
    }

    /// Whether it has failed for the first time.
    pub(super) fn is_first(&self) -> bool {
        self.next == RETRY_PAUSE_MIN
    }

    /// The next pause. What failed together is not tried together.
    pub(super) fn next(&mut self) -> Duration {
        let jitter = self.next.mul_f64(random_number() as f64 / u64::MAX as f64 / 2.0);
        let pause = self.next + jitter;
        self.next = (self.next * 2).min(self.most);
        pause
    }

    /// Sleeps for the next pause.
    pub(super) async fn wait(&mut self) {
        sleep(self.next()).await;
    }
}

/// Requests that wait for their answers, by their numbers. Whoever asked may have left: a task was stopped, or waited for too long.
#[derive(Debug)]
struct PendingReplies<T> {
    answers: HashMap<u64, oneshot::Sender<T>>,
    /// At this size abandoned requests are removed; it doubles with what is left, so that removal costs O(1) for each added one.
    sweep_at: usize,
}

/// With fewer requests, it does not matter how many were left.
const SWEEP_MIN: usize = 64;

impl<T> Default for PendingReplies<T> {
    fn default() -> Self {
        Self { answers: HashMap::new(), sweep_at: SWEEP_MIN }
    }
}

impl<T> PendingReplies<T> {
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
        let mut waiting = PendingReplies::default();
        let mut open = Vec::new();
        for request in 0..10_000 {
            let (answer, answered) = oneshot::channel();
            waiting.add(request, answer);
            // Whoever asked for the others has left.
            if request % 100 == 0 {
                open.push((request, answered));
            }
        }
        assert!(waiting.answers.len() < 4 * SWEEP_MIN + 2 * open.len(), "{}", waiting.answers.len());
        for (request, mut answered) in open {
            waiting.answer(request, request);
            assert_eq!(answered.try_recv(), Ok(request));
        }
    }

    #[test]
    fn pauses_grow() {
        let mut pause = RetryPause::up_to(RETRY_PAUSE_MIN * 3);
        assert!(pause.is_first());
        for base in [1, 2, 3, 3] {
            let pause = pause.next();
            assert!(pause >= RETRY_PAUSE_MIN * base && pause <= RETRY_PAUSE_MIN * base * 3 / 2, "{pause:?}");
        }
        assert!(!pause.is_first());
        pause.reset();
        assert!(pause.is_first());
    }
}

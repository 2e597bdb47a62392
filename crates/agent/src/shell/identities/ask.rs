//! Asking for tokens: whoever prepares a task does not have the connection, the agent has.

use std::collections::HashMap;
use std::time::Duration;

use berth_api::agent::{AllocId, SignTokens, SignedToken, SignedTokens, Up};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::shell::Agent;

/// Requests that are under way; the tasks of others wait.
const ASKS_MAX: usize = 16;

/// How long a server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Why there are no tokens, and whether that may pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::shell) struct Unsigned {
    /// For people.
    pub(in crate::shell) text: String,
    pub(in crate::shell) retry: bool,
}

impl Unsigned {
    fn for_now(text: &str) -> Self {
        Self { text: text.to_owned(), retry: true }
    }
}

type Answer = Result<Vec<SignedToken>, Unsigned>;

/// Which tokens are asked for.
#[derive(Debug)]
pub(in crate::shell) struct Asked {
    alloc: AllocId,
    task: String,
    identities: Vec<String>,
    answer: oneshot::Sender<Answer>,
}

/// Asks for tokens.
#[derive(Debug)]
pub(in crate::shell) struct Signer {
    asks: mpsc::Sender<Asked>,
    room: Semaphore,
}

impl Signer {
    /// One, and what it asks.
    pub(in crate::shell) fn new() -> (Self, mpsc::Receiver<Asked>) {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        (Self { asks, room: Semaphore::new(ASKS_MAX) }, asked)
    }

    /// The tokens of some of a task's identities, in that order.
    pub(super) async fn sign(&self, alloc: AllocId, task: &str, identities: Vec<String>) -> Answer {
        let _permit = self.room.acquire().await;
        let wanted = identities.clone();
        let (answer, answered) = oneshot::channel();
        let asked = Asked { alloc, task: task.to_owned(), identities, answer };
        let stopping = || Unsigned::for_now("the agent stops");
        self.asks.send(asked).await.map_err(|_| stopping())?;
        let silent = "the server does not answer: it may be older than this agent";
        let answered = timeout(ANSWER_MAX, answered).await.map_err(|_| Unsigned::for_now(silent))?;
        let lost = "the connection to the server was lost meanwhile";
        let tokens = answered.map_err(|_| Unsigned::for_now(lost))??;
        let named = tokens.iter().map(|token| &token.identity);
        if named.eq(&wanted) { Ok(tokens) } else { Err(Unsigned::for_now("the server gave other tokens")) }
    }
}

/// The requests that wait for their answers.
#[derive(Debug, Default)]
pub(in crate::shell) struct Signing {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
}

impl Agent {
    /// Passes a request on to the server.
    pub(in crate::shell) fn on_asked(&mut self, asked: Asked) {
        let Asked { alloc, task, identities, answer } = asked;
        let Some(line) = self.up.as_ref().map(|up| up.replies.clone()) else {
            let _ = answer.send(Err(Unsigned::for_now("the agent is connected to no server")));
            return;
        };
        let signing = &mut self.signing;
        // Whoever asked may have left: a task was stopped, or waited for too long.
        signing.waiting.retain(|_, answer| !answer.is_closed());
        signing.last += 1;
        let request = signing.last;
        signing.waiting.insert(request, answer);
        let (secret, alloc_id) = (self.identity.secret.clone(), alloc.0.to_vec());
        let message = Up::Sign(SignTokens { request, secret, alloc_id, task, identities });
        // Bounded by how many may ask; what people read goes by the same line and is not held up.
        tokio::spawn(async move { line.send(message).await });
    }

    /// The server has answered.
    pub(in crate::shell) fn on_signed(&mut self, signed: SignedTokens) {
        let SignedTokens { request, tokens, refused, retry } = signed;
        if let Some(answer) = self.signing.waiting.remove(&request) {
            let is_refused = !refused.is_empty();
            let _ = answer.send(if is_refused { Err(Unsigned { text: refused, retry }) } else { Ok(tokens) });
        }
    }

    /// No answer will come any more.
    pub(in crate::shell) fn cancel_signing(&mut self) {
        self.signing.waiting.clear();
    }
}

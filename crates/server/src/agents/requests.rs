//! Requests to an agent that wait for their responses.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use berth_api::agent::{AgentOutcome, AgentResponse};
use tokio::sync::oneshot;

/// Questions to one agent at a time.
const ASKS_MAX: usize = 256;

/// The questions of one session.
#[derive(Clone, Default)]
pub(crate) struct Asks(Arc<Mutex<PendingAsks>>);

#[derive(Default)]
struct PendingAsks {
    last: u64,
    ended: bool,
    answers: HashMap<u64, oneshot::Sender<AgentOutcome>>,
}

/// A question whose answer somebody waits for. Dropped, it makes room for another: its client may leave before the agent answers.
pub(super) struct PendingAsk {
    asks: Asks,
    pub number: u64,
    /// An error here says that the session is over.
    pub answer: oneshot::Receiver<AgentOutcome>,
}

impl Drop for PendingAsk {
    fn drop(&mut self) {
        self.asks.lock().answers.remove(&self.number);
    }
}

impl Asks {
    /// Notes a question, and where its answer comes. None when too many wait.
    pub(super) fn open(&self) -> Option<PendingAsk> {
        let (sender, answer) = oneshot::channel();
        let mut asks = self.lock();
        if asks.answers.len() >= ASKS_MAX {
            return None;
        }
        asks.last += 1;
        let number = asks.last;
        if !asks.ended {
            asks.answers.insert(number, sender);
        }
        Some(PendingAsk { asks: self.clone(), number, answer })
    }

    /// An answer has come.
    pub fn on_answer(&self, answer: AgentResponse) {
        let sender = self.lock().answers.remove(&answer.request);
        if let (Some(sender), Some(outcome)) = (sender, answer.outcome) {
            let _ = sender.send(outcome);
        }
    }

    /// No answer will come any more.
    pub fn end(&self) {
        let mut asks = self.lock();
        asks.ended = true;
        asks.answers.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PendingAsks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_questions_wait_and_no_more() {
        let asks = Asks::default();
        let mut open: Vec<_> = (0..ASKS_MAX).map(|_| asks.open().expect("there is room")).collect();
        assert!(asks.open().is_none());
        open.pop();
        assert!(asks.open().is_some(), "one client has left before it was answered");
    }
}

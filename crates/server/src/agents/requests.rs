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

impl Asks {
    /// Notes a question: its number, and where the answer comes; an error there says that the session is over. None when
    /// too many wait.
    pub fn open(&self) -> Option<(u64, oneshot::Receiver<AgentOutcome>)> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        if waiting.answers.len() >= ASKS_MAX {
            return None;
        }
        waiting.last += 1;
        let number = waiting.last;
        if !waiting.ended {
            waiting.answers.insert(number, sender);
        }
        Some((number, receiver))
    }

    /// Nobody waits for the answer any more.
    pub fn close(&self, number: u64) {
        self.lock().answers.remove(&number);
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
        let mut waiting = self.lock();
        waiting.ended = true;
        waiting.answers.clear();
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
        let (number, _) = open.pop().expect("some wait");
        asks.close(number);
        assert!(asks.open().is_some());
    }
}

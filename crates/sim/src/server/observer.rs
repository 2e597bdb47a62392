//! Tells the controller what the log applied, and the truth before it.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use berth_controller::Event;
use berth_model::{event::Applied, store::Store};
use berth_replication::{Leadership, Observer};

use super::{Input, Server, lock};
use crate::bugs::Bug;

/// While the log is being opened it only keeps the latest state.
pub struct TellController {
    server: Server,
    opening: Mutex<Option<Store>>,
    /// Of the last entry that was applied.
    term: AtomicU64,
}

impl TellController {
    pub fn new(server: Server) -> Self {
        Self { server, opening: Mutex::new(Some(Store::default())), term: AtomicU64::new(0) }
    }

    /// The log is open: the controller takes over.
    pub fn begin(&self, term: u64) {
        let store = lock(&self.opening).take().unwrap_or_default();
        let recovered = Event::Recovered { term: self.term.load(SeqCst), store: Box::new(store) };
        self.server.tell(Input::Event(recovered));
        self.server.tell(Input::Event(Event::LeadershipGained { term }));
    }
}

impl Observer for TellController {
    fn on_term(&self, term: u64) {
        self.term.store(term, SeqCst);
    }

    fn on_applied(&self, store: &Store, applied: &[Applied]) {
        let around = self.server.around();
        around.truth.applied(around.number, store, applied);
        if let Some(latest) = lock(&self.opening).as_mut() {
            *latest = store.clone();
            return;
        }
        let mut applied = applied.to_vec();
        if around.bug == Some(Bug::LosesEvents) && applied.len() > 1 {
            applied.pop();
        }
        if around.bug == Some(Bug::AppliesTwice) && applied.len() > 2 {
            applied.extend(applied.last().cloned());
        }
        let term = self.term.load(SeqCst);
        let event = Event::Applied { term, store: Box::new(store.clone()), applied };
        self.server.tell(Input::Event(event));
    }

    fn on_restored(&self, store: &Store) {
        let around = self.server.around();
        around.truth.restored(around.number, store);
        if let Some(latest) = lock(&self.opening).as_mut() {
            *latest = store.clone();
        }
    }

    fn on_leadership(&self, term: u64, leadership: Leadership) {
        let leader = leadership == Leadership::Own;
        let around = self.server.around();
        around.truth.leadership(around.number, term, leader);
        if lock(&self.opening).is_none() {
            let event = if leader { Event::LeadershipGained { term } } else { Event::LeadershipLost };
            self.server.tell(Input::Event(event));
        }
    }

    fn on_fatal(&self, reason: &str) {
        let around = self.server.around();
        around.truth.server_failed(around.number, reason);
    }
}

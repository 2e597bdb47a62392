//! Tells the controller what the log applied, and the truth before it.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use berth_controller::{Event, ServerId};
use berth_model::{event::AppliedEntry, store::Store};
use berth_replication::{Leadership, Observer};

use super::{Input, Server, lock};
use crate::bugs::Bug;

/// While the log is being opened it only keeps the latest state.
pub struct LogObserver {
    server: Server,
    opening: Mutex<Option<OpeningLog>>,
    /// Of the last entry that was applied.
    term: AtomicU64,
}

/// What is known while the log is being opened.
#[derive(Default)]
struct OpeningLog {
    store: Store,
    /// The newest term, and who leads in it.
    leader: (u64, Leadership),
}

impl LogObserver {
    pub fn new(server: Server) -> Self {
        Self { server, opening: Mutex::new(Some(OpeningLog::default())), term: AtomicU64::new(0) }
    }

    /// The log is open: the controller takes over.
    pub fn begin(&self) {
        let OpeningLog { store, leader } = lock(&self.opening).take().unwrap_or_default();
        self.tell_recovered(store);
        if leader.1 != Leadership::Unknown {
            self.tell_leader(leader);
        }
    }

    fn tell_recovered(&self, store: Store) {
        let recovered = Event::Recovered { term: self.term.load(SeqCst), store: Box::new(store) };
        self.server.enqueue(Input::Event(recovered));
    }

    fn tell_leader(&self, (term, leadership): (u64, Leadership)) {
        self.server.enqueue(Input::Event(match leadership {
            Leadership::Own => Event::LeadershipGained { term },
            Leadership::Other(leader) => Event::Follows { term, leader: ServerId(leader) },
            Leadership::Unknown => Event::LeadershipLost,
        }));
    }
}

impl Observer for LogObserver {
    fn on_term(&self, term: u64) {
        self.term.store(term, SeqCst);
    }

    fn on_applied(&self, store: &Store, applied: &[AppliedEntry]) {
        let env = self.server.env();
        env.truth.applied(env.number, store, applied);
        *lock(&self.server.0.applied) = store.index();
        if let Some(opening) = lock(&self.opening).as_mut() {
            opening.store = store.clone();
            return;
        }
        let mut applied = applied.to_vec();
        if env.bug == Some(Bug::LosesEvents) && applied.len() > 1 {
            applied.pop();
        }
        if env.bug == Some(Bug::AppliesTwice) && applied.len() > 2 {
            applied.extend(applied.last().cloned());
        }
        let term = self.term.load(SeqCst);
        let event = Event::Applied { term, store: Box::new(store.clone()), applied };
        self.server.enqueue(Input::Event(event));
    }

    fn on_restored(&self, store: &Store) {
        let env = self.server.env();
        env.truth.restored(env.number, store);
        *lock(&self.server.0.applied) = store.index();
        match lock(&self.opening).as_mut() {
            Some(opening) => opening.store = store.clone(),
            None if env.bug == Some(Bug::IgnoresSnapshots) => {}
            // The leader's snapshot replaces all that this server had.
            None => self.tell_recovered(store.clone()),
        }
    }

    fn on_leadership(&self, term: u64, leadership: Leadership) {
        let env = self.server.env();
        env.truth.leadership(env.number, term, leadership == Leadership::Own);
        match lock(&self.opening).as_mut() {
            Some(opening) => opening.leader = (term, leadership),
            None => self.tell_leader((term, leadership)),
        }
    }

    fn on_fatal(&self, reason: &str) {
        let env = self.server.env();
        env.truth.server_failed(env.number, reason);
    }
}

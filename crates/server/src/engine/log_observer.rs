//! Passes what the log applies to the controller.

use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use berth_controller::{EntryVersions, Event, ServerId};
use berth_model::{Index, event::AppliedEntry, store::Store};
use berth_replication::{Leadership, Observer};
use crossbeam_channel::Sender;
use tokio::sync::watch;

use super::EngineInput;

/// Sends applied entries and changes of the leadership to the controller. While the log is being opened, only the latest state and
/// leader are stored: the controller starts with those.
pub(crate) struct LogObserver {
    inputs: Sender<EngineInput>,
    failures: watch::Sender<Option<String>>,
    /// The index of the state that was applied last.
    applied: Arc<AtomicU64>,
    opening: Mutex<Option<Opening>>,
    /// The term of the last applied entry.
    term: AtomicU64,
}

/// What is known while the log is being opened.
#[derive(Default)]
struct Opening {
    store: Store,
    /// The newest term, and its leader.
    leader: (u64, Leadership),
}

impl LogObserver {
    /// `applied` is set to the index of each applied state.
    pub fn new(
        inputs: Sender<EngineInput>,
        failures: watch::Sender<Option<String>>,
        applied: Arc<AtomicU64>,
    ) -> Self {
        let opening = Mutex::new(Some(Opening::default()));
        Self { inputs, failures, applied, opening, term: AtomicU64::new(0) }
    }

    fn opening(&self) -> MutexGuard<'_, Option<Opening>> {
        self.opening.lock().expect("nothing panics while it holds this lock")
    }

    /// The log is open: the controller takes over. Answers with the index of the state that it begins with.
    pub fn begin(&self, versions: EntryVersions) -> Index {
        let mut opening = self.opening();
        let Opening { store, leader } = opening.take().unwrap_or_default();
        let index = store.index();
        let _ = self.inputs.send(EngineInput::event(Event::Versions(versions)));
        self.send_recovered(store);
        if leader.1 != Leadership::Unknown {
            self.send_leader(leader);
        }
        index
    }

    fn send_recovered(&self, store: Store) {
        let term = self.term.load(Ordering::Acquire);
        let _ = self.inputs.send(EngineInput::event(Event::Recovered { term, store: Box::new(store) }));
    }

    fn send_leader(&self, (term, leadership): (u64, Leadership)) {
        let event = match leadership {
            Leadership::Own => Event::LeadershipGained { term },
            Leadership::Other(leader) => Event::Follows { term, leader: ServerId(leader) },
            Leadership::Unknown => Event::LeadershipLost,
        };
        let _ = self.inputs.send(EngineInput::event(event));
    }

    fn on_store(&self, store: &Store) {
        self.applied.store(store.index().0, Ordering::Release);
    }
}

impl Observer for LogObserver {
    fn on_term(&self, term: u64) {
        self.term.store(term, Ordering::Release);
    }

    fn on_applied(&self, store: &Store, applied: &[AppliedEntry]) {
        let mut opening = self.opening();
        self.on_store(store);
        if let Some(opening) = opening.as_mut() {
            opening.store = store.clone();
            return;
        }
        let term = self.term.load(Ordering::Acquire);
        let event = Event::Applied { term, store: Box::new(store.clone()), applied: applied.to_vec() };
        let _ = self.inputs.send(EngineInput::event(event));
    }

    fn on_restored(&self, store: &Store) {
        let mut opening = self.opening();
        self.on_store(store);
        match opening.as_mut() {
            Some(opening) => opening.store = store.clone(),
            // The leader's snapshot takes the place of all that this server had.
            None => self.send_recovered(store.clone()),
        }
    }

    fn on_leadership(&self, term: u64, leadership: Leadership) {
        match leadership {
            Leadership::Own => tracing::info!(term, "this server leads"),
            Leadership::Other(leader) => tracing::info!(term, leader, "another server leads"),
            Leadership::Unknown => tracing::info!(term, "no server is known to lead"),
        }
        match self.opening().as_mut() {
            Some(opening) => opening.leader = (term, leadership),
            None => self.send_leader((term, leadership)),
        }
    }

    fn on_fatal(&self, reason: &str) {
        let _ = self.failures.send(Some(reason.to_owned()));
    }
}

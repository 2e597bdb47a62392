//! Who is informed of what happens to the replicated state.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use berth_model::{event::AppliedEntry, panic_text, store::Store};

use crate::peer::greeting::OwnCluster;

/// Follows the state. Called, but for the last two, by the apply loop, which waits for them: they should only hand over.
pub trait Observer: Send + Sync + 'static {
    /// The entries that are reported next, or the state, end with one of this term. Comes before either, when it changes.
    fn on_term(&self, _term: u64) {}

    /// Entries were applied, in order; `store` is the state after the last of them. Comes before their proposers are
    /// answered.
    fn on_applied(&self, store: &Store, applied: &[AppliedEntry]);

    /// The state was replaced by that of a snapshot; what was known before is void. Also the first call of all, with
    /// what is on disk and known to be committed.
    fn on_restored(&self, store: &Store);

    /// Another server leads, or this one, or nobody is known to; or the term changed.
    fn on_leadership(&self, term: u64, leadership: Leadership);

    /// The log can no longer be written, or the state no longer be trusted: nothing is acknowledged from now on, and
    /// the process should end. Called once.
    fn on_fatal(&self, reason: &str);
}

/// Who leads, as far as a server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leadership {
    /// Nobody, or this server, but it is not ready yet.
    #[default]
    Unknown,
    /// This server: a majority has answered it, and all that was acknowledged before is in its state.
    Own,
    /// The server of this id.
    Other(u64),
}

/// Learns which cluster this server belongs to from what it applies, and passes everything on.
pub(crate) struct ClusterLearner {
    observer: Arc<dyn Observer>,
    cluster: OwnCluster,
}

impl ClusterLearner {
    pub fn new(observer: Arc<dyn Observer>, cluster: OwnCluster) -> Self {
        Self { observer, cluster }
    }

    fn learn(&self, store: &Store) {
        let id = store.cluster().id;
        if id != 0 && self.cluster.id() != id {
            self.cluster.learn(id);
        }
        if self.cluster.entries() < store.version() {
            self.cluster.learn_entries(store.version());
        }
    }
}

impl Observer for ClusterLearner {
    fn on_term(&self, term: u64) {
        self.observer.on_term(term);
    }

    fn on_applied(&self, store: &Store, applied: &[AppliedEntry]) {
        self.learn(store);
        self.observer.on_applied(store, applied);
    }

    fn on_restored(&self, store: &Store) {
        self.learn(store);
        self.observer.on_restored(store);
    }

    fn on_leadership(&self, term: u64, leadership: Leadership) {
        self.observer.on_leadership(term, leadership);
    }

    fn on_fatal(&self, reason: &str) {
        self.observer.on_fatal(reason);
    }
}

/// Tells the observer of the first fatal failure, and of no other.
pub(crate) struct Alarm {
    observer: Arc<dyn Observer>,
    raised: AtomicBool,
}

impl Alarm {
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, raised: AtomicBool::new(false) }
    }

    pub fn raise(&self, reason: &str) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            tracing::error!(reason, "the log has stopped; nothing is acknowledged any more");
            self.observer.on_fatal(reason);
        }
    }

    /// Carries out a part of the log's work. A panic in it, the observer's own included, is a fatal failure like any
    /// other: a log that has lost one of its parts would take in work forever and finish none.
    pub fn guard<T>(&self, doing: &str, work: impl FnOnce() -> T) -> io::Result<T> {
        // What the work was about to change is not used again: the log ends.
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
            let reason = format!("{doing}: internal error: {}", panic_text(&*panic));
            self.raise(&reason);
            io::Error::other(reason)
        })
    }
}

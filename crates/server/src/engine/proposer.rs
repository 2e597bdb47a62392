//! Proposes entries to the log in order, several at a time, and reports to the controller those that are not applied.

use std::{sync::Arc, time::Instant};

use berth_controller::{EntryFailure, Event};
use berth_model::command::EncodedEntry;
use berth_replication::{ProposeError, Replication};
use crossbeam_channel::Sender;
use tokio::{sync::mpsc, task::JoinSet};

use super::{EngineInput, EngineShared};

/// Entries queued for the log; the controller has only a few in flight.
const ENTRIES_MAX: usize = 64;

/// Where the controller puts entries.
pub(crate) struct Proposals(mpsc::Sender<Proposal>);

/// An entry, and the term of the leadership that made it.
pub(crate) struct Proposal {
    pub term: u64,
    pub entry: EncodedEntry,
}

impl Proposals {
    pub fn new() -> (Self, mpsc::Receiver<Proposal>) {
        let (sender, receiver) = mpsc::channel(ENTRIES_MAX);
        (Self(sender), receiver)
    }

    pub fn send(&self, proposal: Proposal) {
        // Fails only when the server is stopping.
        let _ = self.0.blocking_send(proposal);
    }
}

/// Proposes entries until there are no more.
pub(crate) async fn run(
    shared: Arc<EngineShared>,
    replication: Replication,
    mut proposals: mpsc::Receiver<Proposal>,
    inputs: Sender<EngineInput>,
) {
    let mut results = JoinSet::new();
    while let Some(Proposal { term, entry }) = proposals.recv().await {
        let (index, started_at) = (entry.index(), Instant::now());
        // Submitted one after the other, which keeps their order; only the results are waited for concurrently.
        let submitted = replication.submit(term, entry).await;
        let (shared, inputs) = (shared.clone(), inputs.clone());
        results.spawn(async move {
            let outcome = match submitted {
                Ok(pending) => pending.applied().await,
                Err(error) => Err(error),
            };
            shared.counters.commit_time.record(started_at.elapsed());
            let fate = match outcome {
                Ok(_) => return,
                Err(ProposeError::NotWritten(reason)) => EntryFailure::NotWritten(reason.to_string()),
                Err(ProposeError::Unknown(reason)) => EntryFailure::Unknown(reason.to_string()),
            };
            let event = EngineInput::event(Event::NotApplied { term, index, fate });
            let _ = tokio::task::spawn_blocking(move || inputs.send(event).ok()).await;
        });
        while results.try_join_next().is_some() {}
    }
}

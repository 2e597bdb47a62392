//! Hands entries to the log in order, several at a time, and tells the controller of those that it refused.

use std::{sync::Arc, time::Instant};

use berth_controller::Event;
use berth_model::command::Entry;
use berth_replication::{ProposeError, Replication};
use crossbeam_channel::Sender;
use tokio::{sync::mpsc, task::JoinSet};

use super::{Input, Shared};

/// Entries handed over and not taken; the controller has only a few in flight.
const ENTRIES_MAX: usize = 64;

/// Where the controller puts entries.
pub(crate) struct Proposals(mpsc::Sender<Entry>);

impl Proposals {
    pub fn new() -> (Self, mpsc::Receiver<Entry>) {
        let (sender, receiver) = mpsc::channel(ENTRIES_MAX);
        (Self(sender), receiver)
    }

    pub fn send(&self, entry: Entry) {
        // Fails only when the server is stopping.
        let _ = self.0.blocking_send(entry);
    }
}

/// Proposes entries until there are no more.
pub(crate) async fn run(
    shared: Arc<Shared>,
    replication: Replication,
    mut entries: mpsc::Receiver<Entry>,
    inputs: Sender<Input>,
) {
    let mut results = JoinSet::new();
    while let Some(entry) = entries.recv().await {
        let (index, begun) = (entry.index, Instant::now());
        let submitted = replication.submit(entry).await;
        let (shared, inputs) = (shared.clone(), inputs.clone());
        results.spawn(async move {
            let outcome = match submitted {
                Ok(pending) => pending.applied().await,
                Err(error) => Err(error),
            };
            shared.counters.commit_time.record(begun.elapsed());
            match outcome {
                Ok(_) => {}
                Err(ProposeError::NotWritten(reason)) => {
                    let refused = Event::NotWritten { index, reason: reason.to_string() };
                    let _ = tokio::task::spawn_blocking(move || inputs.send(Input::Event(refused))).await;
                }
                // The log has ended, and the server with it: whoever waits is answered by that.
                Err(ProposeError::Unknown(reason)) => tracing::error!(%index, %reason, "entry in doubt"),
            }
        });
        while results.try_join_next().is_some() {}
    }
}

//! Hands entries to the log in order, several at a time, and informs the controller of those that are not applied.

use berth_controller::{EntryFailure, Event};
use berth_model::command::EncodedEntry;
use berth_replication::{NotWritten, ProposeError, Replication};
use tokio::sync::mpsc;

use super::{Input, Server};
use crate::{
    bugs::Bug,
    executor::{Simulated, spawn},
};

/// Of so many entries one is denied where that bug is planted.
const DENIED_EACH: u64 = 50;

/// An entry, and the term of the leadership that made it.
pub struct Proposal {
    pub term: u64,
    pub entry: EncodedEntry,
}

pub async fn run(
    server: Server,
    replication: Replication<Simulated>,
    mut proposals: mpsc::Receiver<Proposal>,
) {
    while let Some(Proposal { term, entry }) = proposals.recv().await {
        let index = entry.index();
        let submitted = replication.submit(term, entry).await;
        let server = server.clone();
        spawn(async move {
            let denied =
                index.0.is_multiple_of(DENIED_EACH) && server.env().bug == Some(Bug::DeniesWhatIsWritten);
            let outcome = match submitted {
                // Said at once: once it is applied, nobody believes it any more.
                Ok(_) if denied => Err(NotWritten::TooLarge { bytes: 0, max: 0 }.into()),
                Ok(pending) => pending.applied().await,
                Err(error) => Err(error),
            };
            let fate = match outcome {
                Ok(_) => return,
                Err(ProposeError::NotWritten(reason)) => EntryFailure::NotWritten(reason.to_string()),
                Err(ProposeError::Unknown(reason)) => EntryFailure::Unknown(reason.to_string()),
            };
            let env = server.env();
            env.truth.not_applied(env.number, (term, index), &fate);
            server.enqueue(Input::Event(Event::NotApplied { term, index, fate }));
        });
    }
}

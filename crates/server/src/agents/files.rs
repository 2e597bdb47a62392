//! Logs and files read from agents: what was asked for, and who waits for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use berth_api::agent::FileChunk;
use berth_model::NodeId;
use tokio::sync::mpsc;

use crate::state::{AgentError, ReadPiece, ReadPieces};

/// Pieces on their way to one reader; the agent sends no more bytes than it was allowed, in pieces of its own choice.
const CHUNKS_MAX: usize = 1024;

/// The open reads of one session.
#[derive(Clone, Default)]
pub(crate) struct FileReads(Arc<Mutex<Reads>>);

#[derive(Default)]
struct Reads {
    last: u64,
    open: HashMap<u64, mpsc::Sender<Result<ReadPiece, AgentError>>>,
}

impl FileReads {
    /// Opens a read: its number, and where its pieces come.
    pub fn open(&self) -> (u64, ReadPieces) {
        let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
        let mut reads = self.lock();
        reads.last += 1;
        let number = reads.last;
        reads.open.insert(number, sender);
        (number, receiver)
    }

    /// Nobody reads any more.
    pub fn close(&self, number: u64) {
        self.lock().open.remove(&number);
    }

    /// A piece has come. One that nobody takes ends its read: the agent sent more than it was allowed.
    pub fn on_chunk(&self, chunk: &FileChunk) {
        let mut reads = self.lock();
        let Some(reader) = reads.open.get(&chunk.request) else { return };
        let mut going_on = true;
        if !chunk.error.is_empty() {
            going_on = reader.try_send(Err(error_of(&chunk.error))).is_ok();
        } else if !chunk.done || !chunk.data.is_empty() {
            let (data, file, event) = (chunk.data.clone(), chunk.file.clone(), chunk.event.clone());
            let piece = ReadPiece { offset: chunk.offset, data, file, event };
            going_on = reader.try_send(Ok(piece)).is_ok();
        }
        if chunk.done || !chunk.error.is_empty() || !going_on {
            reads.open.remove(&chunk.request);
        }
    }

    /// The session of this node is over.
    pub fn end(&self, node: NodeId) {
        let open = std::mem::take(&mut self.lock().open);
        // A reader who has no room for the news has enough to read; the closed channel ends it all the same.
        open.into_values().for_each(|reader| drop(reader.try_send(Err(AgentError::NotConnected(node)))));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Reads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a read ended, as its agent says.
fn error_of(text: &str) -> AgentError {
    if let Some(what) = text.strip_prefix("not found: ") {
        AgentError::NotFound(what.to_owned())
    } else if let Some(what) = text.strip_prefix("invalid: ") {
        AgentError::Invalid(what.to_owned())
    } else {
        AgentError::Failed(text.to_owned())
    }
}

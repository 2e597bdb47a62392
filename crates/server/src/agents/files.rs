//! Reads of logs and files from agents that are in progress, and their readers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use berth_api::agent::{FileChunk, Overrun};
use berth_model::NodeId;
use tokio::sync::mpsc;

use crate::shared::{AgentError, ReadPiece, ReadPieces};

/// Bytes of one log or file on their way from an agent.
pub(super) const CREDIT_BYTES: u64 = 256 << 10;
/// Pieces on their way to one reader; the agent sends no more bytes than it was allowed, in pieces of its own choice.
const CHUNKS_MAX: usize = 1024;
/// Names of files and events that may come with them, in all.
const NAMES_BYTES_MAX: u64 = 64 << 10;
/// What is kept of the reason for which a read ends.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// The open reads of one session.
#[derive(Clone, Default)]
pub(crate) struct FileReads(Arc<Mutex<Reads>>);

#[derive(Default)]
struct Reads {
    last: u64,
    /// Nothing comes any more, for a read that is opened later either.
    ended: bool,
    open: HashMap<u64, OpenRead>,
}

struct OpenRead {
    pieces: mpsc::Sender<Result<ReadPiece, AgentError>>,
    /// Bytes that may still come.
    credit: u64,
    /// Bytes of names that may still come.
    names_credit: u64,
}

impl OpenRead {
    /// Takes in what has come.
    fn push(&mut self, chunk: &FileChunk) -> Result<(), AgentError> {
        let names = (chunk.file.len() + chunk.event.len()) as u64;
        let credits =
            (self.credit.checked_sub(chunk.data.len() as u64), self.names_credit.checked_sub(names));
        let (Some(credit), Some(names_credit)) = credits else {
            return Err(AgentError::Failed(format!("read from node: {Overrun}")));
        };
        (self.credit, self.names_credit) = (credit, names_credit);
        let (data, file, event) = (chunk.data.clone(), chunk.file.clone(), chunk.event.clone());
        let piece = ReadPiece { offset: chunk.offset, data, file, event };
        // A reader that is gone has no use for it.
        self.pieces.try_send(Ok(piece)).map_err(|_| AgentError::Failed(format!("read from node: {Overrun}")))
    }
}

impl FileReads {
    /// Opens a read, of which the agent may send [`CREDIT_BYTES`] at first: its number, and where its pieces come. None once the
    /// session is over: a link may be looked up just before its session ends, and nobody would end such a read.
    pub fn open(&self) -> Option<(u64, ReadPieces)> {
        let (pieces, receiver) = mpsc::channel(CHUNKS_MAX);
        let mut reads = self.lock();
        if reads.ended {
            return None;
        }
        reads.last += 1;
        let number = reads.last;
        reads.open.insert(number, OpenRead { pieces, credit: CREDIT_BYTES, names_credit: NAMES_BYTES_MAX });
        Some((number, receiver))
    }

    /// Nobody reads any more.
    pub fn close(&self, number: u64) {
        self.lock().open.remove(&number);
    }

    /// The reader has taken a piece: as much more may come.
    pub fn allow(&self, number: u64, piece: &ReadPiece) {
        if let Some(read) = self.lock().open.get_mut(&number) {
            read.credit += piece.data.len() as u64;
            read.names_credit += (piece.file.len() + piece.event.len()) as u64;
        }
    }

    /// A piece has come. One that is more than was allowed ends its read.
    pub fn on_chunk(&self, chunk: &FileChunk) {
        let mut reads = self.lock();
        let Some(read) = reads.open.get_mut(&chunk.request) else { return };
        let mut outcome = Ok(());
        if !chunk.error.is_empty() {
            outcome = Err(error_of(&chunk.error[..chunk.error.floor_char_boundary(ERROR_BYTES_MAX)]));
        } else if !chunk.done || !chunk.data.is_empty() {
            outcome = read.push(chunk);
        }
        let ends = chunk.done || outcome.is_err();
        if let Err(error) = outcome {
            // A full channel does not take the reason; the closed channel ends the read all the same.
            let _ = read.pieces.try_send(Err(error));
        }
        if ends {
            reads.open.remove(&chunk.request);
        }
    }

    /// The session of this node is over.
    pub fn end(&self, node: NodeId) {
        let mut reads = self.lock();
        reads.ended = true;
        let open = std::mem::take(&mut reads.open);
        drop(reads);
        // A full channel does not take the error; the closed channel ends the read all the same.
        open.into_values().for_each(|read| drop(read.pieces.try_send(Err(AgentError::NotConnected(node)))));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(request: u64, bytes: usize) -> FileChunk {
        FileChunk { request, data: vec![b'x'; bytes].into(), ..FileChunk::default() }
    }

    fn overrun() -> AgentError {
        AgentError::Failed("read from node: more was sent than was allowed".to_owned())
    }

    #[tokio::test]
    async fn an_agent_is_held_to_the_window_of_a_read() {
        let (reads, half) = (FileReads::default(), CREDIT_BYTES as usize / 2);
        let (number, mut pieces) = reads.open().expect("the session is open");
        reads.on_chunk(&chunk(number, half));
        reads.on_chunk(&chunk(number, half));
        let piece = pieces.recv().await.expect("it is open").expect("allowed");
        reads.allow(number, &piece);
        reads.on_chunk(&chunk(number, half));
        reads.on_chunk(&chunk(number, 1));
        for _ in 0..2 {
            assert_eq!(pieces.recv().await.expect("it is open").expect("allowed").data.len(), half);
        }
        assert_eq!(pieces.recv().await, Some(Err(overrun())));
        assert_eq!(pieces.recv().await, None);
    }

    #[tokio::test]
    async fn names_that_come_with_pieces_are_held_to_a_window_too() {
        let reads = FileReads::default();
        let (number, mut pieces) = reads.open().expect("the session is open");
        let named = |bytes: u64| FileChunk { file: "f".repeat(bytes as usize), ..chunk(number, 0) };
        reads.on_chunk(&named(NAMES_BYTES_MAX));
        reads.on_chunk(&named(1));
        assert!(pieces.recv().await.expect("it is open").is_ok());
        assert_eq!(pieces.recv().await, Some(Err(overrun())));
        let (number, mut pieces) = reads.open().expect("the session is open");
        let error = FileChunk { error: "e".repeat(1 << 20), done: true, ..chunk(number, 0) };
        reads.on_chunk(&error);
        let response = pieces.recv().await;
        assert!(
            matches!(&response, Some(Err(AgentError::Failed(text))) if text.len() == ERROR_BYTES_MAX),
            "{response:?}"
        );
    }

    #[tokio::test]
    async fn a_session_that_is_over_ends_its_reads_and_opens_no_other() {
        let reads = FileReads::default();
        let (_, mut pieces) = reads.open().expect("the session is open");
        reads.end(NodeId(7));
        assert_eq!(pieces.recv().await, Some(Err(AgentError::NotConnected(NodeId(7)))));
        assert_eq!(pieces.recv().await, None);
        assert!(reads.open().is_none(), "nobody would end it");
    }
}

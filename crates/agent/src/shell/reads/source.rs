//! What a read takes its pieces from: a task's output, or a file.

use std::io;

use crate::files::FileReader;
use crate::logs::LogReader;

pub(super) enum ReadSource {
    Log(LogReader),
    File(FileReader),
}

/// A piece of it, or what happened to it.
pub(super) struct ReadPiece {
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
    pub(super) event: &'static str,
}

impl ReadSource {
    /// The next bytes, `bytes_max` at most; none at the end so far.
    pub(super) fn next_piece(&mut self, bytes_max: usize) -> io::Result<Option<ReadPiece>> {
        Ok(match self {
            Self::Log(log) => log.next_piece(bytes_max)?.map(|piece| ReadPiece {
                file: piece.file,
                offset: piece.offset,
                data: piece.data,
                event: "",
            }),
            Self::File(file) => file.next_piece(bytes_max)?.map(|piece| ReadPiece {
                file: file.path().to_owned(),
                offset: piece.offset,
                data: piece.data,
                event: piece.event,
            }),
        })
    }

    pub(super) fn offset(&self) -> u64 {
        match self {
            Self::Log(log) => log.offset(),
            Self::File(file) => file.offset(),
        }
    }

    /// Nothing will follow, whatever is written.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::File(file) if file.has_ended())
    }
}

//! Reads a task's output, across rotation.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::LogPlace;

/// Where somebody is in a log.
#[derive(Debug)]
pub(crate) struct LogReader {
    place: LogPlace,
    offset: u64,
}

/// A part of a log that lies in one file.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) file: String,
    /// Bytes since the task's first output.
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
}

impl LogReader {
    /// A reader `offset` bytes after the start, or before the end.
    pub(crate) fn new(place: LogPlace, offset: u64, from_end: bool) -> Self {
        let offset = if from_end { end(&place).saturating_sub(offset) } else { offset };
        Self { place, offset }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes, `bytes_max` at most; none at the end so far. What was rotated away is skipped.
    pub(crate) fn next_piece(&mut self, bytes_max: usize) -> io::Result<Option<Piece>> {
        let indexes = self.place.indexes();
        let Some(oldest) = indexes.first() else { return Ok(None) };
        self.offset = self.offset.max(oldest * self.place.file_bytes_max);
        let index = self.offset / self.place.file_bytes_max;
        if !indexes.contains(&index) {
            return Ok(None);
        }
        let start = index * self.place.file_bytes_max;
        let file = match File::open(self.place.path(index)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let room = usize::try_from(start + self.place.file_bytes_max - self.offset).unwrap_or(usize::MAX);
        let mut data = vec![0; bytes_max.min(room)];
        let read = file.read_at(&mut data, self.offset - start)?;
        data.truncate(read);
        let piece = Piece { file: self.place.name(index), offset: self.offset, data };
        self.offset += read as u64;
        Ok((read > 0).then_some(piece))
    }
}

fn end(place: &LogPlace) -> u64 {
    let Some(newest) = place.indexes().last().copied() else { return 0 };
    let bytes = place.path(newest).metadata().map_or(0, |found| found.len());
    newest * place.file_bytes_max + bytes.min(place.file_bytes_max)
}

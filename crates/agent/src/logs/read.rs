//! Reads a task's output, across rotation.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::LogPath;

/// A reader's position in a log.
#[derive(Debug)]
pub(crate) struct LogReader {
    log_path: LogPath,
    offset: u64,
}

/// A part of a log that lies in one file.
#[derive(Debug)]
pub(crate) struct LogPiece {
    pub(crate) file: String,
    /// Bytes since the task's first output.
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
}

impl LogReader {
    /// A reader `offset` bytes after the start, or before the end.
    pub(crate) fn new(log_path: LogPath, offset: u64, from_end: bool) -> Self {
        let offset = if from_end { end(&log_path).saturating_sub(offset) } else { offset };
        Self { log_path, offset }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes, `bytes_max` at most; none at the end so far. What was rotated away is skipped.
    pub(crate) fn next_piece(&mut self, bytes_max: usize) -> io::Result<Option<LogPiece>> {
        let indexes = self.log_path.indexes();
        let Some(oldest) = indexes.first() else { return Ok(None) };
        self.offset = self.offset.max(oldest * self.log_path.file_bytes_max);
        let index = self.offset / self.log_path.file_bytes_max;
        if !indexes.contains(&index) {
            return Ok(None);
        }
        let start = index * self.log_path.file_bytes_max;
        let file = match File::open(self.log_path.path(index)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let left = usize::try_from(start + self.log_path.file_bytes_max - self.offset).unwrap_or(usize::MAX);
        let mut data = vec![0; bytes_max.min(left)];
        let read = file.read_at(&mut data, self.offset - start)?;
        data.truncate(read);
        let piece = LogPiece { file: self.log_path.name(index), offset: self.offset, data };
        self.offset += read as u64;
        Ok((read > 0).then_some(piece))
    }
}

fn end(log_path: &LogPath) -> u64 {
    let Some(newest) = log_path.indexes().last().copied() else { return 0 };
    let bytes = log_path.path(newest).metadata().map_or(0, |found| found.len());
    newest * log_path.file_bytes_max + bytes.min(log_path.file_bytes_max)
}

//! Writes a task's output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};

use super::LogPlace;

/// The open end of a log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    place: LogPlace,
    files_max: u64,
    index: u64,
    bytes: u64,
    file: File,
}

impl LogWriter {
    /// Continues where the log ends.
    pub(crate) fn open(place: LogPlace, files_max: u64) -> io::Result<Self> {
        let index = place.indexes().last().copied().unwrap_or(0);
        let file = Self::file(&place, index)?;
        let bytes = file.metadata()?.len();
        Ok(Self { place, files_max: files_max.max(1), index, bytes, file })
    }

    fn file(place: &LogPlace, index: u64) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).open(place.path(index))
    }

    /// Appends all that the disk takes. What it refuses is lost and not counted: a full disk must not stop the task.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.append_some(bytes) {
                Ok(0) | Err(_) => return,
                Ok(written) => bytes = &bytes[written..],
            }
        }
    }

    fn append_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes >= self.place.file_bytes_max {
            self.rotate()?;
        }
        let room = usize::try_from(self.place.file_bytes_max - self.bytes).unwrap_or(usize::MAX);
        let written = self.file.write(&bytes[..bytes.len().min(room)])?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = Self::file(&self.place, self.index + 1)?;
        self.index += 1;
        self.bytes = self.file.metadata()?.len();
        for old in self.place.indexes().into_iter().filter(|old| old + self.files_max <= self.index) {
            fs::remove_file(self.place.path(old))?;
        }
        Ok(())
    }
}

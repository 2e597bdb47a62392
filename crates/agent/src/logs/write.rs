//! Writes a task's output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};

use super::LogPath;

/// The open end of a log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    log_path: LogPath,
    files_max: u64,
    index: u64,
    bytes: u64,
    file: File,
}

impl LogWriter {
    /// Continues where the log ends.
    pub(crate) fn open(log_path: LogPath, files_max: u64) -> io::Result<Self> {
        let index = log_path.indexes().last().copied().unwrap_or(0);
        let file = Self::file(&log_path, index)?;
        let bytes = file.metadata()?.len();
        Ok(Self { log_path, files_max: files_max.max(1), index, bytes, file })
    }

    fn file(log_path: &LogPath, index: u64) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).open(log_path.path(index))
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
        if self.bytes >= self.log_path.file_bytes_max {
            self.rotate()?;
        }
        let left = usize::try_from(self.log_path.file_bytes_max - self.bytes).unwrap_or(usize::MAX);
        let written = self.file.write(&bytes[..bytes.len().min(left)])?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = Self::file(&self.log_path, self.index + 1)?;
        self.index += 1;
        self.bytes = self.file.metadata()?.len();
        for old in self.log_path.indexes().into_iter().filter(|old| old + self.files_max <= self.index) {
            fs::remove_file(self.log_path.path(old))?;
        }
        Ok(())
    }
}

//! Reads a file of an allocation, as far as it goes, and on when it grows.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use berth_api::agent::FileRead;

use super::{FileError, ResolvedPath, find};
use crate::paths::AllocPaths;

/// A reader's position in a file.
#[derive(Debug)]
pub(crate) struct FileReader {
    file: File,
    path: String,
    offset: u64,
    /// How many bytes are still to be read.
    left: u64,
    /// What is written later is wanted, and what happens to the file.
    follow: bool,
    /// The furthest that it is known to have reached.
    longest: u64,
    ended: bool,
}

/// A piece of a file, or an event such as its truncation.
#[derive(Debug, Default)]
pub(crate) struct FilePiece {
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
    /// As Nomad's clients know it; empty with bytes.
    pub(crate) event: &'static str,
}

impl FileReader {
    /// A reader of what `request` names.
    pub(crate) fn open(paths: &AllocPaths, request: &FileRead) -> Result<Self, FileError> {
        let FileRead { offset, limit, follow, .. } = *request;
        let ResolvedPath::Entry(found) = find(paths, &request.path)? else {
            return Err(FileError::Invalid(format!("{} is a directory", request.path)));
        };
        let longest = u64::try_from(found.stat.st_size).unwrap_or(0);
        let offset = if request.from_end { longest.saturating_sub(offset) } else { offset };
        let left = if limit == 0 { u64::MAX } else { limit };
        let path = found.path.to_string_lossy().into_owned();
        Ok(Self { file: found.open()?, path, offset, left, follow, longest, ended: false })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Nothing will follow, whatever is written.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended || self.left == 0
    }

    /// The next bytes, `bytes_max` at most, or what has happened to the file; none at the end so far.
    pub(crate) fn next_piece(&mut self, bytes_max: usize) -> io::Result<Option<FilePiece>> {
        if self.has_ended() {
            return Ok(None);
        }
        let mut data = vec![0; bytes_max.min(usize::try_from(self.left).unwrap_or(usize::MAX))];
        let read = self.file.read_at(&mut data, self.offset)?;
        data.truncate(read);
        if read == 0 {
            return self.what_happened();
        }
        let piece = FilePiece { offset: self.offset, data, event: "" };
        self.offset += read as u64;
        self.left -= read as u64;
        self.longest = self.longest.max(self.offset);
        Ok(Some(piece))
    }

    /// Why there is nothing to read: the file may be shorter than it was, or gone.
    fn what_happened(&mut self) -> io::Result<Option<FilePiece>> {
        if !self.follow {
            return Ok(None);
        }
        let found = self.file.metadata()?;
        let event = if found.nlink() == 0 {
            self.ended = true;
            "file deleted"
        } else if found.len() < self.offset && self.offset <= self.longest {
            (self.offset, self.longest) = (0, found.len());
            "file truncated"
        } else {
            return Ok(None);
        };
        Ok(Some(FilePiece { offset: self.offset, event, ..FilePiece::default() }))
    }
}

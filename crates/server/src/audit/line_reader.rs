//! Reads a file line by line, in bounded memory.

use std::io::{self, BufRead};

use super::record::RECORD_BYTES_MAX;

/// Lines of a reader.
pub(super) struct LineReader<R> {
    reader: R,
    line: Vec<u8>,
}

/// The next line of a file, or what is there instead.
pub(super) enum AuditLine<'l> {
    /// A line with its end.
    Whole(&'l [u8]),
    /// One of so many bytes, more than any line has that was written.
    TooLong(u64),
    /// So many bytes at the end of the file, without the end of a line.
    Torn(u64),
}

impl<R: BufRead> LineReader<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, line: Vec::new() }
    }

    /// The next line; none at the end.
    pub fn next(&mut self) -> io::Result<Option<AuditLine<'_>>> {
        self.line.clear();
        let mut length = 0_u64;
        loop {
            let read = self.reader.fill_buf()?;
            let end = read.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(read.len());
            let room = (RECORD_BYTES_MAX + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&read[..taken.min(room)]);
            self.reader.consume(taken);
            length += taken as u64;
            if end.is_some() {
                let fits = length <= RECORD_BYTES_MAX as u64;
                return Ok(Some(if fits {
                    AuditLine::Whole(&self.line)
                } else {
                    AuditLine::TooLong(length)
                }));
            }
            if taken == 0 {
                return Ok((length > 0).then_some(AuditLine::Torn(length)));
            }
        }
    }
}

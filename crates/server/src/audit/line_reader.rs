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
    /// A line of so many bytes, which is longer than any that was written.
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
            let buffer = self.reader.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let consumed = end.unwrap_or(buffer.len());
            let room = (RECORD_BYTES_MAX + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&buffer[..consumed.min(room)]);
            self.reader.consume(consumed);
            length += consumed as u64;
            if end.is_some() {
                let fits = length <= RECORD_BYTES_MAX as u64;
                return Ok(Some(if fits {
                    AuditLine::Whole(&self.line)
                } else {
                    AuditLine::TooLong(length)
                }));
            }
            if consumed == 0 {
                return Ok((length > 0).then_some(AuditLine::Torn(length)));
            }
        }
    }
}

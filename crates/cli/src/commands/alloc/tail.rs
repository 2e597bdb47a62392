//! The last lines of a log or a file. The API takes an offset in bytes, so a growing window is read until it holds enough lines.

use super::logs::data;
use crate::{
    failure::Failure,
    remote::{Remote, StreamRead, StreamStart},
};

/// Assumed length of a line for the first read.
const LINE_BYTES: u64 = 256;
/// Factor by which the window grows with each read.
const GROWTH: u64 = 8;
/// Largest window: no more of a log is held in memory.
const WINDOW_BYTES_MAX: u64 = 64 << 20;

/// The end of a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LogTail {
    /// The last lines.
    pub bytes: Vec<u8>,
    /// Offset in bytes behind them, where following continues.
    pub offset: u64,
}

/// The last lines of a log, or all of it when there are fewer.
pub async fn last_lines(remote: &Remote, read: &StreamRead<'_>, lines: usize) -> Result<LogTail, Failure> {
    let mut window = LINE_BYTES.saturating_mul(lines as u64).clamp(LINE_BYTES, WINDOW_BYTES_MAX);
    loop {
        let from = StreamStart::BeforeEnd(window);
        let (start, bytes) = read_all(remote, &StreamRead { from, follow: false, ..read.clone() }).await?;
        if let Some(tail) = tail(&bytes, lines, start == 0 || window == WINDOW_BYTES_MAX) {
            return Ok(LogTail { bytes: tail.to_vec(), offset: start + bytes.len() as u64 });
        }
        window = (window * GROWTH).min(WINDOW_BYTES_MAX);
    }
}

/// Where the piece stands, and its bytes.
async fn read_all(remote: &Remote, read: &StreamRead<'_>) -> Result<(u64, Vec<u8>), Failure> {
    let mut frames = remote.stream(read).await?;
    let (mut start, mut bytes) = (None, Vec::new());
    while let Some(frame) = frames.next().await? {
        start.get_or_insert(frame.offset);
        bytes.extend(data(frame)?);
    }
    Ok((start.unwrap_or(0), bytes))
}

/// The last lines; none when there may be more of them before the bytes, of which these are not `all`.
fn tail(bytes: &[u8], lines: usize, all: bool) -> Option<&[u8]> {
    let without_last_end = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if lines == 0 {
        return Some(&[]);
    }
    let line_ends = without_last_end.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match line_ends.map(|(at, _)| at).nth(lines - 1) {
        Some(at) => Some(&bytes[at + 1..]),
        None => all.then_some(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_the_end() {
        let check = |bytes: &str, lines, expected: Option<&str>| {
            assert_eq!(
                tail(bytes.as_bytes(), lines, false),
                expected.map(str::as_bytes),
                "{bytes:?} {lines}"
            );
        };
        check("a\nb\nc\n", 2, Some("b\nc\n"));
        check("a\nb\nc", 2, Some("b\nc"));
        check("a\nb\nc\n", 0, Some(""));
        check("a\nb\nc\n", 3, None);
        assert_eq!(tail(b"a\nb\n", 9, true), Some(&b"a\nb\n"[..]));
        assert_eq!(tail(b"", 9, true), Some(&b""[..]));
    }
}

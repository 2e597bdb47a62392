//! Prints the output of tasks. A file or a pipe gets each byte unchanged; a terminal gets text and colours only. Other control
//! sequences are removed: they come from strangers, and may move the cursor, rename windows or type on the user's behalf.

use std::{
    io::{self, IsTerminal, Write},
    mem,
};

/// Where a task's output goes.
#[derive(Debug)]
pub struct RawOutput {
    to: StdStream,
    /// None where bytes are left as they are.
    filter: Option<TerminalFilter>,
}

#[derive(Debug, Clone, Copy)]
enum StdStream {
    Stdout,
    Stderr,
}

impl RawOutput {
    /// Standard output.
    pub fn stdout() -> Self {
        Self { to: StdStream::Stdout, filter: io::stdout().is_terminal().then(TerminalFilter::default) }
    }

    /// Standard error.
    pub fn stderr() -> Self {
        Self { to: StdStream::Stderr, filter: io::stderr().is_terminal().then(TerminalFilter::default) }
    }

    /// Writes the next chunk.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let filtered = self.filter.as_mut().map(|filter| filter.pass(bytes));
        let bytes = filtered.as_deref().unwrap_or(bytes);
        match self.to {
            StdStream::Stdout => super::print_bytes(bytes),
            StdStream::Stderr => io::stderr().lock().write_all(bytes),
        }
    }
}

/// Longest colour sequence that is waited for.
const COLOUR_BYTES_MAX: usize = 32;
/// In place of what is left out: U+FFFD.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Passes text and colours and replaces other control sequences; a sequence may span several chunks.
#[derive(Debug, Default)]
struct TerminalFilter {
    /// The beginning of what may become a colour sequence; empty when there is none.
    sequence: Vec<u8>,
}

impl TerminalFilter {
    fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            self.take(byte, &mut passed);
        }
        passed
    }

    fn take(&mut self, byte: u8, passed: &mut Vec<u8>) {
        if byte == 0x1b {
            self.give_up(passed);
            self.sequence.push(byte);
        } else if self.sequence.is_empty() {
            plain(byte, passed);
        } else {
            self.sequence.push(byte);
            match (self.sequence.len(), byte) {
                (2, b'[') => {}
                (3.., b'0'..=b'9' | b';' | b':') if self.sequence.len() < COLOUR_BYTES_MAX => {}
                (3.., b'm') => passed.append(&mut self.sequence),
                _ => self.give_up(passed),
            }
        }
    }

    /// What was begun is no colour: it is shown, without the byte that would give it power.
    fn give_up(&mut self, passed: &mut Vec<u8>) {
        for byte in mem::take(&mut self.sequence) {
            plain(byte, passed);
        }
    }
}

/// A byte outside of sequences. Those above 0x7f belong to UTF-8, or are shown as unknown by the terminal itself.
fn plain(byte: u8, passed: &mut Vec<u8>) {
    match byte {
        b'\n' | b'\t' | b'\r' => passed.push(byte),
        0..0x20 | 0x7f => passed.extend_from_slice(REPLACEMENT),
        _ => passed.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&str], expected: &str) {
        let mut filter = TerminalFilter::default();
        let passed: Vec<u8> = chunks.iter().flat_map(|chunk| filter.pass(chunk.as_bytes())).collect();
        assert_eq!(String::from_utf8(passed).unwrap(), expected);
    }

    #[test]
    fn text_and_colours_pass() {
        check(&["naïve ✓\ttext\r\n"], "naïve ✓\ttext\r\n");
        check(&["\u{1b}[1;31mred\u{1b}[0m"], "\u{1b}[1;31mred\u{1b}[0m");
        check(&["\u{1b}", "[3", "2mgreen"], "\u{1b}[32mgreen");
    }

    #[test]
    fn nothing_else_steers_the_terminal() {
        check(&["\u{1b}]0;title\u{7}"], "\u{fffd}]0;title\u{fffd}");
        check(&["\u{1b}[2Jgone", "\u{1b}[6n"], "\u{fffd}[2Jgone\u{fffd}[6n");
        check(&["\u{1b}\u{1b}[31mred"], "\u{fffd}\u{1b}[31mred");
        check(&["a\u{8}b\u{0}c"], "a\u{fffd}b\u{fffd}c");
        check(&[&format!("\u{1b}[{}m", "1".repeat(40))], &format!("\u{fffd}[{}m", "1".repeat(40)));
    }
}

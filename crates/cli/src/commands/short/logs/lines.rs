//! Splits output that arrives in chunks into lines, so that lines of several tasks can be interleaved.

/// A longer line is printed in parts: a task that never ends one must not be kept in memory.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Assembles lines from chunks.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
}

impl LineSplitter {
    /// The lines that are whole with this piece, without their ends.
    pub fn take(&mut self, chunk: &[u8]) -> Vec<Vec<u8>> {
        let mut complete = Vec::new();
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(part);
            while self.partial.len() > LINE_BYTES_MAX {
                let rest = self.partial.split_off(LINE_BYTES_MAX);
                complete.push(std::mem::replace(&mut self.partial, rest));
            }
            if self.partial.last() == Some(&b'\n') {
                self.partial.pop();
                complete.push(std::mem::take(&mut self.partial));
            }
        }
        complete
    }

    /// What was begun and will not be ended.
    pub fn rest(self) -> Option<Vec<u8>> {
        (!self.partial.is_empty()).then_some(self.partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_across_pieces() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.take(b"one\ntw"), [b"one".to_vec()]);
        assert_eq!(lines.take(b"o\n\nthr"), [b"two".to_vec(), Vec::new()]);
        assert_eq!(lines.rest(), Some(b"thr".to_vec()));
    }

    #[test]
    fn a_line_without_an_end_comes_in_parts() {
        let mut lines = LineSplitter::default();
        let parts = lines.take(&vec![b'x'; 2 * LINE_BYTES_MAX + 5]);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [LINE_BYTES_MAX, LINE_BYTES_MAX]);
        assert_eq!(lines.rest().map(|rest| rest.len()), Some(5));
    }
}

//! Lines of output that comes in pieces, so that those of several tasks can stand side by side.

/// A longer line is printed in parts: a task that never ends one must not be kept in memory.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Puts lines together.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    /// The lines that are whole with this piece, without their ends.
    pub fn take(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            while self.begun.len() > LINE_BYTES_MAX {
                let rest = self.begun.split_off(LINE_BYTES_MAX);
                whole.push(std::mem::replace(&mut self.begun, rest));
            }
            if self.begun.last() == Some(&b'\n') {
                self.begun.pop();
                whole.push(std::mem::take(&mut self.begun));
            }
        }
        whole
    }

    /// What was begun and will not be ended.
    pub fn rest(self) -> Option<Vec<u8>> {
        (!self.begun.is_empty()).then_some(self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_across_pieces() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"one\ntw"), [b"one".to_vec()]);
        assert_eq!(lines.take(b"o\n\nthr"), [b"two".to_vec(), Vec::new()]);
        assert_eq!(lines.rest(), Some(b"thr".to_vec()));
    }

    #[test]
    fn a_line_without_an_end_comes_in_parts() {
        let mut lines = Lines::default();
        let parts = lines.take(&vec![b'x'; 2 * LINE_BYTES_MAX + 5]);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [LINE_BYTES_MAX, LINE_BYTES_MAX]);
        assert_eq!(lines.rest().map(|rest| rest.len()), Some(5));
    }
}

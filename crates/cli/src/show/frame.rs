//! Repeated output: redrawn in place on a terminal, one after the other elsewhere.

use std::io;

use crate::output::{self, stdout_rows};

/// To the upper left corner, with everything gone.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// What was printed last.
#[derive(Debug, Default)]
pub(super) struct Frame {
    last: Option<String>,
}

impl Frame {
    /// Prints it, unless it is what stands there already.
    pub fn print(&mut self, text: &str) -> io::Result<()> {
        if self.last.as_deref() == Some(text) {
            return Ok(());
        }
        let printed = match (stdout_rows(), &self.last) {
            (Some(rows), _) => format!("{CLEAR}{}", cut(text, rows)),
            (None, Some(_)) => format!("\n{text}"),
            (None, None) => text.to_owned(),
        };
        self.last = Some(text.to_owned());
        output::print(&printed)
    }
}

/// As many lines as fit, and how many did not. The last row stays free for the cursor.
fn cut(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let rows_free = rows.saturating_sub(1).max(1);
    if lines.len() <= rows_free {
        return text.to_owned();
    }
    let shown = &lines[..rows_free - 1];
    format!("{}\n… and {} more lines\n", shown.join("\n"), lines.len() - shown.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_terminal_says_what_it_cannot_show() {
        assert_eq!(cut("a\nb\nc\n", 4), "a\nb\nc\n");
        assert_eq!(cut("a\nb\nc\n", 3), "a\n… and 2 more lines\n");
    }
}

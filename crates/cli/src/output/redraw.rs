//! Redraws lines on a terminal whenever they change.

use std::io::{self, Write};

use super::terminal::stderr_rows;

/// The last lines on standard error, to be replaced by the next ones.
#[derive(Debug, Default)]
pub struct Redraw {
    drawn: usize,
}

impl Redraw {
    /// Replaces what was drawn before, with as many of the lines as the terminal has rows for. Each line must fit its
    /// width, or the count of lines is wrong.
    pub fn draw(&mut self, lines: &[String]) {
        // The cursor stands in the row below the last line, and what has left the screen cannot be replaced.
        let most = stderr_rows().map_or(usize::MAX, |rows| rows.saturating_sub(1));
        self.finish(&lines[..lines.len().min(most)]);
    }

    /// Replaces it with what is to stay.
    pub fn finish(&mut self, lines: &[String]) {
        let mut frame = self.erase();
        for line in lines {
            frame.push_str(line);
            frame.push('\n');
        }
        self.drawn = lines.len();
        // Whoever closed standard error does not want to know.
        let _ = io::stderr().lock().write_all(frame.as_bytes());
    }

    /// Up to the first drawn line, and everything below it gone.
    fn erase(&self) -> String {
        if self.drawn == 0 { String::new() } else { format!("\u{1b}[{}A\u{1b}[J", self.drawn) }
    }
}

//! Where output goes, and how wide it may be.

use super::{
    style::{Palette, Tone},
    table::cut,
    terminal::{stderr_width, stdout_width},
    text,
};

/// Width of a progress bar, in characters.
pub const BAR_CHARS: usize = 20;

/// How text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Every column, and nothing shortened.
    pub wide: bool,
    /// Columns of the terminal; none where lines may be of any length.
    pub columns: Option<usize>,
    /// How words are coloured.
    pub palette: Palette,
}

impl Layout {
    /// No terminal: lines of any length, no colours.
    pub const PLAIN: Self = Self { wide: false, columns: None, palette: Palette::Plain };

    /// For standard output.
    pub fn stdout(wide: bool) -> Self {
        let columns = stdout_width().filter(|_| !wide);
        Self { wide, columns, palette: Palette::of(&std::io::stdout()) }
    }

    /// For standard error, when lines there can be drawn again.
    pub fn stderr() -> Option<Self> {
        let columns = stderr_width()?;
        Some(Self { wide: false, columns: Some(columns), palette: Palette::of(&std::io::stderr()) })
    }

    /// How much of all is done, [`BAR_CHARS`] wide.
    pub fn bar(&self, done: usize, all: usize, tone: Tone) -> String {
        let full = BAR_CHARS * done.min(all) / all.max(1);
        let part = self.palette.paint(&"━".repeat(full), tone);
        format!("{part}{}", self.palette.paint(&"─".repeat(BAR_CHARS - full), Tone::Faint))
    }

    /// A line of plain text, cut to the terminal's width.
    pub fn fit(self, line: &str) -> String {
        cut(line, self.columns.unwrap_or(usize::MAX))
    }

    /// An id of 36 characters, shortened unless everything is shown.
    pub fn id(self, id: &str) -> String {
        text::id(id, self.wide)
    }
}

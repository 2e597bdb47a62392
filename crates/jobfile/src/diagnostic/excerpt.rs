//! The line of a source at which a mistake stands, with its part underlined.

use std::{fmt, ops::Range};

use super::printable;

/// Characters of a line that are shown; of a longer one only the neighbourhood of the mistake.
const SHOWN_CHARS_MAX: usize = 100;
/// Characters shown before the mistake when the line is cut.
const LEAD_CHARS: usize = 40;

/// A line of the source, cut to a readable width, and the part of it that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The number of the line, from 1.
    pub line: usize,
    /// In characters, from 1; of the whole line, even if it is cut here.
    pub column: usize,
    /// What is shown of the line.
    pub text: String,
    /// The part that is meant, in characters of `text`; at least one.
    pub caret: Range<usize>,
}

impl Excerpt {
    /// The line in which the range of bytes begins.
    pub(crate) fn of(source: &str, range: Range<usize>) -> Self {
        let start = source.floor_char_boundary(range.start.min(source.len()));
        let end = source.floor_char_boundary(range.end.clamp(start, source.len()));
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |at| start + at);
        let before = source[line_start..start].chars().count();
        let marked_chars = source[start..end.min(line_end)].trim_end().chars().count().max(1);
        let skipped =
            if before + marked_chars > SHOWN_CHARS_MAX { before.saturating_sub(LEAD_CHARS) } else { 0 };
        let text: String =
            source[line_start..line_end].trim_end().chars().skip(skipped).map(printable_char).collect();
        Self {
            line: source[..line_start].matches('\n').count() + 1,
            column: before + 1,
            text: text.chars().take(SHOWN_CHARS_MAX).collect(),
            caret: before - skipped..(before - skipped + marked_chars).min(SHOWN_CHARS_MAX + 1),
        }
    }

    /// Draws the line and the carets below it; `margin` is the width of the line number.
    pub(crate) fn draw(&self, f: &mut fmt::Formatter<'_>, margin: usize) -> fmt::Result {
        let (indent, carets) = (self.caret.start, self.caret.len());
        writeln!(f, "{:margin$} |", "")?;
        writeln!(f, "{} | {}", self.line, self.text)?;
        writeln!(f, "{:margin$} | {:indent$}{:^<carets$}", "", "", "")
    }
}

/// One column for each character, so that the carets stay below what they mean.
fn printable_char(c: char) -> char {
    if c == '\t' { ' ' } else { printable(c) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_line_is_cut_around_the_mistake() {
        let source = format!("a\n{}WRONG{}", "x".repeat(100_000), "y".repeat(100_000));
        let excerpt = Excerpt::of(&source, 100_002..100_007);
        assert_eq!((excerpt.line, excerpt.column), (2, 100_001));
        assert_eq!(excerpt.text.chars().count(), SHOWN_CHARS_MAX);
        assert_eq!(&excerpt.text[excerpt.caret], "WRONG");
    }

    #[test]
    fn terminal_escapes_are_not_shown() {
        let excerpt = Excerpt::of("a = \"\u{1b}[31m\u{202e}\"", 4..12);
        assert!(!excerpt.text.contains(['\u{1b}', '\u{202e}']), "{excerpt:?}");
    }

    #[test]
    fn places_outside_of_the_source_are_its_end() {
        assert_eq!(Excerpt::of("", 5..9).caret, 0..1);
        assert_eq!(Excerpt::of("é", 1..1).column, 1);
    }
}

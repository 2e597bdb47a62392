//! The reading position: what all rules of the grammar share.

use crate::{limits::DEPTH_MAX, report::Report, span::Span};

/// As much of a word as a message shows.
const WORD_CHARS: usize = 40;

/// A mistake that ends the construct in which it stands.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub span: Span,
    pub message: String,
    pub help: Option<String>,
    /// Whether there is no point in reading on.
    pub fatal: bool,
}

pub(super) type SyntaxResult<T> = Result<T, SyntaxError>;

/// A position in a source.
#[derive(Debug)]
pub(super) struct Cursor<'s, 'r> {
    pub source: &'s str,
    pub report: &'r Report<'r>,
    pub at: usize,
    depth: usize,
    /// Whether a line end is mere space here, as it is between brackets.
    newline_is_space: bool,
}

impl<'s, 'r> Cursor<'s, 'r> {
    pub fn new(source: &'s str, report: &'r Report<'r>) -> Self {
        Self { source, report, at: 0, depth: 0, newline_is_space: false }
    }

    pub fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn starts_with(&self, text: &str) -> bool {
        self.rest().as_bytes().starts_with(text.as_bytes())
    }

    pub fn at_end(&self) -> bool {
        self.at == self.source.len()
    }

    /// Steps over the text if it stands here.
    pub fn eat(&mut self, text: &str) -> bool {
        let found = self.starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Steps over space and then over the text, which must stand here.
    pub fn expect(&mut self, text: &str, purpose: &str) -> SyntaxResult<()> {
        self.skip_space()?;
        if self.eat(text) { Ok(()) } else { Err(self.unexpected(&format!("`{text}` {purpose}"))) }
    }

    /// Steps over a word and returns it; empty when none stands here.
    pub fn word(&mut self) -> &'s str {
        let rest = self.rest();
        let starts = rest.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let length = if starts { rest.find(|c| !is_inside_word(c)).unwrap_or(rest.len()) } else { 0 };
        self.at += length;
        &rest[..length]
    }

    /// Steps over blanks and comments, and line ends where they are space.
    pub fn skip_space(&mut self) -> SyntaxResult<()> {
        loop {
            match self.rest().as_bytes() {
                [b' ' | b'\t' | b'\r', ..] => self.at += 1,
                [b'\n', ..] if self.newline_is_space => self.at += 1,
                [b'#', ..] | [b'/', b'/', ..] => self.skip_line(),
                [b'/', b'*', ..] => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    /// Steps to the end of the line, not over it.
    pub fn skip_line(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    /// Steps over `/* ... */`.
    pub fn skip_comment(&mut self) -> SyntaxResult<()> {
        let start = self.at;
        match self.rest().find("*/") {
            Some(length) => self.at += length + 2,
            None => {
                self.at = self.source.len();
                return Err(SyntaxError::at(Span::new(start, start + 2), "comment is never closed").fatal());
            }
        }
        Ok(())
    }

    /// Reads something in which line ends are space, or are not.
    pub fn with_newlines<T>(
        &mut self,
        are_space: bool,
        read: impl FnOnce(&mut Self) -> SyntaxResult<T>,
    ) -> SyntaxResult<T> {
        let before = std::mem::replace(&mut self.newline_is_space, are_space);
        let result = read(self);
        self.newline_is_space = before;
        result
    }

    /// Reads something one level deeper, down to the limit.
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> SyntaxResult<T>) -> SyntaxResult<T> {
        if self.depth == DEPTH_MAX {
            let message = format!("nested more than {DEPTH_MAX} levels deep");
            return Err(SyntaxError::at(Span::new(self.at, self.at + 1), message).fatal());
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Tells of a mistake.
    pub fn note(&self, error: SyntaxError) {
        self.report.note(error.span.into(), error.message, error.help);
    }

    pub fn span_from(&self, start: usize) -> Span {
        Span::new(start, self.at)
    }

    /// The word that begins here, as much of it as a message shows, or the sign.
    fn next_word(&self) -> &'s str {
        let rest = self.rest();
        let is_end = |(at, (_, c)): &(usize, (usize, char))| *at >= WORD_CHARS || !is_inside_word(*c);
        let end = rest.char_indices().enumerate().find(is_end).map_or(rest.len(), |(_, (end, _))| end);
        let sign = rest.chars().next().map_or(0, char::len_utf8);
        &rest[..end.max(sign)]
    }

    /// What stands here is not what should.
    pub fn unexpected(&self, wanted: &str) -> SyntaxError {
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some('\n') => "the end of the line".to_owned(),
            Some(_) => crate::diagnostic::quoted(self.next_word()),
        };
        let length = self.next_word().len();
        SyntaxError::at(Span::new(self.at, self.at + length), format!("expected {wanted}, found {found}"))
    }
}

fn is_inside_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

impl SyntaxError {
    pub fn at(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None, fatal: false }
    }

    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    pub fn fatal(self) -> Self {
        Self { fatal: true, ..self }
    }
}

//! Errors of templates, with their positions.

use std::fmt;

/// A position in a template's text, in bytes from its beginning.
pub(crate) type Offset = usize;

/// What is wrong, and where.
pub(crate) type ErrorAt = (Offset, String);

/// What is wrong with a template, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// In words, what is wrong.
    pub message: String,
}

impl TemplateError {
    /// One at an offset of a text.
    pub(crate) fn at(text: &str, offset: Offset, message: impl Into<String>) -> Self {
        let before = &text[..text.floor_char_boundary(offset.min(text.len()))];
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self { line, column: before[line_start..].chars().count() + 1, message: message.into() }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for TemplateError {}

//! A source as its smallest parts, comments and line ends included: what a formatter moves about.

use super::cursor::{Cursor, SyntaxResult};
use crate::report::Report;

/// A part of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'s> {
    pub kind: TokenKind,
    pub text: &'s str,
    /// Whether blanks stand in front of it.
    pub is_apart: bool,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    Number,
    /// A quoted string or a heredoc, with all that is in it.
    Text,
    /// Up to the end of the line, or of itself.
    Comment,
    Mark,
    LineEnd,
}

/// Marks of more than one character, longer ones first.
const MARKS: &[&str] = &["...", "==", "!=", "<=", ">=", "&&", "||", "=>", "::"];

/// All tokens of a source whose syntax is correct.
pub(crate) fn tokens<'s>(source: &'s str, report: &Report<'_>) -> Vec<Token<'s>> {
    let mut cursor = Cursor::new(source, report);
    let mut tokens = Vec::new();
    while !cursor.at_end() {
        let before = cursor.at;
        cursor.skip_blanks();
        let (is_apart, start) = (cursor.at > before, cursor.at);
        if cursor.at_end() {
            break;
        }
        match cursor.token() {
            Ok(kind) => tokens.push(Token { kind, text: &source[start..cursor.at], is_apart }),
            Err(error) => {
                cursor.note(error);
                break;
            }
        }
    }
    tokens
}

impl Cursor<'_, '_> {
    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\r']).len();
    }

    /// Steps over one token.
    fn token(&mut self) -> SyntaxResult<TokenKind> {
        Ok(match self.rest().as_bytes() {
            [b'\n', ..] => {
                self.at += 1;
                TokenKind::LineEnd
            }
            [b'#', ..] | [b'/', b'/', ..] => {
                self.skip_line();
                TokenKind::Comment
            }
            [b'/', b'*', ..] => {
                self.skip_comment()?;
                TokenKind::Comment
            }
            [b'"', ..] => self.quoted().map(|_| TokenKind::Text)?,
            [b'<', b'<', ..] => self.heredoc().map(|_| TokenKind::Text)?,
            [b'0'..=b'9', ..] => self.number().map(|_| TokenKind::Number)?,
            _ if !self.word().is_empty() => TokenKind::Word,
            _ => {
                let mark = MARKS.iter().find(|mark| self.starts_with(mark)).map(|mark| mark.len());
                self.at += mark.or(self.peek().map(char::len_utf8)).unwrap_or(1);
                TokenKind::Mark
            }
        })
    }
}

//! One line: its tokens, and the blanks between them.

use std::fmt;

use crate::syntax::{Token, TokenKind};

/// Blanks of one level.
const LEVEL_BLANKS: usize = 2;

/// A line that is being laid out.
#[derive(Debug)]
pub(super) struct Line<'t> {
    tokens: &'t [Token<'t>],
    /// How deep it stands.
    pub level: usize,
    /// Further blanks in front of its `=`.
    pub before_equals: usize,
    /// Further blanks in front of the comment at its end.
    pub before_comment: usize,
}

impl<'t> Line<'t> {
    pub fn new(tokens: &'t [Token<'t>]) -> Self {
        Self { tokens, level: 0, before_equals: 0, before_comment: 0 }
    }

    pub fn is_blank(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The brackets that close in front of anything else, and how many more are opened than closed behind them.
    pub fn brackets(&self) -> (usize, isize) {
        let closes = |token: &Token<'_>| is_mark(token, &["}", "]", ")"]);
        let first = self.tokens.iter().take_while(|token| closes(token)).count();
        let change = |token: &Token<'_>| match token {
            token if closes(token) => -1,
            token if is_mark(token, &["{", "[", "("]) => 1,
            _ => 0,
        };
        (first, self.tokens[first..].iter().map(change).sum())
    }

    /// Where the `=` of a whole attribute stands, in characters from the line's first one; none for anything else.
    pub fn equals_at(&self) -> Option<usize> {
        let at = match self.tokens {
            [key, equals, ..] if key.kind != TokenKind::Mark && is_mark(equals, &["="]) => 1,
            _ => return None,
        };
        (self.brackets().1 == 0).then(|| self.width(&self.tokens[..at]) + 1)
    }

    /// Where the comment behind something stands, in characters from the line's first one; none without one.
    pub fn comment_at(&self) -> Option<usize> {
        let (last, before) = self.tokens.split_last()?;
        let is_behind = last.kind == TokenKind::Comment && !before.is_empty();
        (is_behind && !self.has_lines()).then(|| self.width(before) + 1 + self.before_equals)
    }

    /// Whether a text of several lines stands in it.
    pub fn has_lines(&self) -> bool {
        self.tokens.iter().any(|token| token.text.contains('\n'))
    }

    fn width(&self, tokens: &[Token<'_>]) -> usize {
        let gap = |i: usize| usize::from(i > 0 && is_spaced(tokens, i));
        let token = |(i, token): (usize, &Token<'_>)| gap(i) + token.text.chars().count();
        tokens.iter().enumerate().map(token).sum()
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:1$}", "", if self.is_blank() { 0 } else { self.level * LEVEL_BLANKS })?;
        for (i, token) in self.tokens.iter().enumerate() {
            if i > 0 && is_spaced(self.tokens, i) {
                f.write_str(" ")?;
            }
            if i == 1 && is_mark(token, &["="]) {
                write!(f, "{:1$}", "", self.before_equals)?;
            }
            if i > 0 && i + 1 == self.tokens.len() && token.kind == TokenKind::Comment {
                write!(f, "{:1$}", "", self.before_comment)?;
            }
            f.write_str(token.text.trim_end_matches('\r'))?;
        }
        Ok(())
    }
}

fn is_mark(token: &Token<'_>, marks: &[&str]) -> bool {
    token.kind == TokenKind::Mark && marks.contains(&token.text)
}

/// Whether a blank belongs between a token and the one before it.
fn is_spaced(tokens: &[Token<'_>], at: usize) -> bool {
    let (before, token) = (&tokens[at - 1], &tokens[at]);
    if is_mark(before, &["{"]) && is_mark(token, &["}"]) || is_mark(token, &[",", ")", "]", ".", "...", "::"])
    {
        return false;
    }
    if is_mark(before, &["(", "[", ".", "!", "::"]) || is_mark(before, &["-"]) && is_sign(tokens, at - 1) {
        return false;
    }
    // A call and an index stand close behind what they belong to.
    let is_behind = before.kind != TokenKind::Mark || is_mark(before, &["]", ")", "}"]);
    if is_mark(token, &["(", "["]) && is_behind {
        return token.is_apart;
    }
    // `[*]` and `.*` are no multiplications.
    let is_splat = is_mark(token, &["*"]) && is_mark(before, &["[", "."]);
    !is_splat
}

/// Whether a `-` belongs to what follows it.
fn is_sign(tokens: &[Token<'_>], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| tokens.get(before)) else { return true };
    match before.kind {
        TokenKind::Mark => !is_mark(before, &[")", "]", "}"]),
        TokenKind::Word => matches!(before.text, "in" | "if"),
        _ => false,
    }
}

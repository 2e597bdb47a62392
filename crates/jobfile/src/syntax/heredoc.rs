//! Heredocs: strings of many lines, from `<<END` to a line that says `END`.

use std::borrow::Cow;

use super::{
    StringPart,
    cursor::{Cursor, SyntaxError, SyntaxResult},
    template::{StringPiece, StringPieceKind},
};
use crate::span::Span;

impl<'s> Cursor<'s, '_> {
    /// `<<END` or, without the indentation that all its lines share, `<<-END`.
    pub fn heredoc(&mut self) -> SyntaxResult<Vec<StringPart<'s>>> {
        let start = self.at;
        self.at += 2;
        let indented = self.eat("-");
        let end = self.word();
        let opened = Span::new(start, self.at);
        self.eat("\r");
        if end.is_empty() || !self.eat("\n") {
            return Err(self.unexpected("a word and a new line after `<<`"));
        }
        let (mut pieces, mut text) = (Vec::new(), String::new());
        while !self.heredoc_ends(end) {
            if self.at_end() {
                return Err(
                    SyntaxError::at(opened, format!("heredoc is never closed by a line `{end}`")).fatal()
                );
            }
            self.heredoc_line(&mut pieces, &mut text)?;
        }
        pieces.push(StringPiece::text(text));
        if indented {
            dedent(&mut pieces);
        }
        self.template(pieces)
    }

    /// Steps over the closing word, if this line holds nothing else but what closes the expression around it: text may begin with
    /// that word too.
    fn heredoc_ends(&mut self, end: &str) -> bool {
        let start = self.at;
        let line = self.rest().trim_start_matches([' ', '\t']);
        self.at = self.source.len() - line.len();
        let ends = self.word() == end && {
            let behind = self.rest().lines().next().unwrap_or_default();
            behind.trim().chars().all(|c| matches!(c, ')' | ']' | '}' | ','))
        };
        if !ends {
            self.at = start;
        }
        ends
    }

    /// A line with its end; a hole in it may reach over further ones.
    fn heredoc_line(&mut self, pieces: &mut Vec<StringPiece<'s>>, text: &mut String) -> SyntaxResult<()> {
        loop {
            let rest = self.rest();
            let plain = rest.find(['$', '%', '\n']).unwrap_or(rest.len());
            let line_ends = rest[plain..].starts_with('\n');
            text.push_str(&rest[..plain + usize::from(line_ends)]);
            self.at += plain + usize::from(line_ends);
            if line_ends || self.at_end() {
                return Ok(());
            }
            self.marked(pieces, text)?;
        }
    }
}

/// Takes from each line the indentation of the least indented one; blank lines do not count.
fn dedent(pieces: &mut [StringPiece<'_>]) {
    let count = pieces.len();
    let starts = pieces.iter().enumerate().flat_map(|(i, piece)| match &piece.kind {
        StringPieceKind::Text(text) => line_starts(text, i == 0, i + 1 < count),
        _ => Vec::new(),
    });
    let shared = starts.min().unwrap_or(0);
    for (i, piece) in pieces.iter_mut().enumerate() {
        if let StringPieceKind::Text(text) = &mut piece.kind {
            *text = Cow::Owned(without_indentation(text, i == 0, shared));
        }
    }
}

/// The indentation of each line that begins in the text and is not blank. The first line began before it, unless it is
/// the first of all; and the last one goes on after it if a hole follows.
fn line_starts(text: &str, is_first: bool, hole_follows: bool) -> Vec<usize> {
    let starts_with_hole = hole_follows && (text.ends_with('\n') || is_first && text.is_empty());
    let lines = text.split_inclusive('\n').skip(usize::from(!is_first));
    let lines = lines.filter(|line| !line.ends_with('\n') || !line.trim().is_empty());
    lines.map(indentation).chain(starts_with_hole.then_some(0)).collect()
}

fn without_indentation(text: &str, is_first: bool, shared: usize) -> String {
    let cut = |(i, line)| if i > 0 || is_first { &line[indentation(line).min(shared)..] } else { line };
    text.split_inclusive('\n').enumerate().map(cut).collect()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

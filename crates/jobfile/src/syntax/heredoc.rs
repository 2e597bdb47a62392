//! Heredocs: strings of many lines, from `<<END` to a line that says `END`.

use super::{
    Part,
    cursor::{Cursor, Fault, Parsed},
};
use crate::span::Span;

/// A piece of a heredoc, and whether a line begins with it.
type Piece = (bool, Part);

impl Cursor<'_> {
    /// `<<END` or, without the indentation that all its lines share, `<<-END`.
    pub fn heredoc(&mut self) -> Parsed<Vec<Part>> {
        let start = self.at;
        self.at += 2;
        let indented = self.eat("-");
        let end = self.word();
        let opened = Span::new(start, self.at);
        self.eat("\r");
        if end.is_empty() || !self.eat("\n") {
            return Err(self.unexpected("a word and a new line after `<<`"));
        }
        let mut pieces = Vec::new();
        while !self.heredoc_ends(end) {
            if self.at_end() {
                return Err(Fault::at(opened, format!("heredoc is never closed by a line `{end}`")).fatal());
            }
            self.heredoc_line(&mut pieces)?;
        }
        if indented {
            dedent(&mut pieces);
        }
        Ok(pieces.into_iter().map(|(_, part)| part).collect())
    }

    /// Steps over the closing word, if this line holds nothing else before it.
    fn heredoc_ends(&mut self, end: &str) -> bool {
        let start = self.at;
        let line = self.rest().trim_start_matches([' ', '\t']);
        self.at = self.source.len() - line.len();
        let ends = self.word() == end;
        if !ends {
            self.at = start;
        }
        ends
    }

    /// A line with its end; a hole in it may reach over further ones.
    fn heredoc_line(&mut self, pieces: &mut Vec<Piece>) -> Parsed<()> {
        let (mut parts, mut text) = (Vec::new(), String::new());
        loop {
            let rest = self.rest();
            let plain = rest.find(['$', '%', '\n']).unwrap_or(rest.len());
            let line_ends = rest[plain..].starts_with('\n');
            text.push_str(&rest[..plain + usize::from(line_ends)]);
            self.at += plain + usize::from(line_ends);
            if line_ends || self.at_end() {
                break;
            }
            self.marked(&mut parts, &mut text)?;
        }
        parts.push(Part::Text(text));
        pieces.extend(parts.into_iter().enumerate().map(|(i, part)| (i == 0, part)));
        Ok(())
    }
}

/// Takes from each line the indentation of the least indented one; blank lines do not count.
fn dedent(pieces: &mut [Piece]) {
    let indentation = |text: &str| text.len() - text.trim_start_matches([' ', '\t']).len();
    let lines = || pieces.iter().filter_map(|(starts, part)| match part {
        Part::Text(text) if *starts => Some(text),
        _ => None,
    });
    let shared = lines().filter(|text| !text.trim().is_empty() || !text.ends_with('\n')).map(|text| indentation(text)).min();
    for (starts, part) in pieces.iter_mut() {
        if let (true, Part::Text(text)) = (*starts, part) {
            text.drain(..indentation(text).min(shared.unwrap_or(0)));
        }
    }
}

//! Bodies: attributes and blocks, line by line.

use super::{
    Block, Item, ItemKind,
    cursor::{Cursor, SyntaxError, SyntaxResult},
};
use crate::{span::Span, tree::Name};

impl<'s> Cursor<'s, '_> {
    /// Reads the body of a whole file.
    pub fn file(mut self) -> Vec<Item<'s>> {
        self.items(None).unwrap_or_else(|error| {
            self.note(error);
            Vec::new()
        })
    }

    /// Items up to the end of the file, or the brace that closes the block `opened` there. After a mistake it goes on
    /// with the next item.
    fn items(&mut self, opened: Option<Span>) -> SyntaxResult<Vec<Item<'s>>> {
        let mut items = Vec::new();
        loop {
            self.with_newlines(true, Self::skip_space)?;
            match (self.peek(), opened) {
                (None, None) => return Ok(items),
                (None, Some(opened)) => return Err(SyntaxError::at(opened, "block is never closed").fatal()),
                (Some('}'), Some(_)) => return Ok(items),
                _ => {}
            }
            let start = self.at;
            match self.item() {
                Ok(item) => items.push(item),
                Err(error) if error.fatal || self.report.is_full() => return Err(error.fatal()),
                Err(error) => {
                    self.note(error);
                    self.recover(start, opened.is_some());
                }
            }
        }
    }

    /// `key = value` or `key "label" { ... }`, up to the end of its line.
    fn item(&mut self) -> SyntaxResult<Item<'s>> {
        let start = self.at;
        let text = self.word();
        if text.is_empty() {
            return Err(self.unexpected("the name of an attribute or block"));
        }
        let key = Name { text: text.into(), span: self.span_from(start) };
        self.skip_space()?;
        let kind = match self.rest().as_bytes() {
            [b'=', ..] => self.attribute()?,
            _ => self.block(&key)?,
        };
        self.line_end(&key)?;
        Ok(Item { key, kind })
    }

    fn attribute(&mut self) -> SyntaxResult<ItemKind<'s>> {
        self.at += 1;
        self.with_newlines(false, Self::expression).map(ItemKind::Attribute)
    }

    fn block(&mut self, key: &Name<'_>) -> SyntaxResult<ItemKind<'s>> {
        let start = self.at;
        let labels = self.labels()?;
        if !self.starts_with("{") {
            let word = &key.text;
            let error = self.unexpected(&format!("`=` or `{{` after `{word}`"));
            return Err(match labels.as_slice() {
                [label] => error.help(format!("for an attribute, write `{word} = \"{}\"`", label.text)),
                _ => error,
            });
        }
        let opened = Span::new(self.at, self.at + 1);
        let items = self.nested(|c| {
            c.at += 1;
            c.items(Some(opened))
        })?;
        self.at += 1;
        Ok(ItemKind::Block(Block { labels, items, span: self.span_from(start) }))
    }

    fn labels(&mut self) -> SyntaxResult<Vec<Name<'s>>> {
        let mut labels = Vec::new();
        loop {
            self.skip_space()?;
            let start = self.at;
            let text = match self.peek() {
                Some('"') => self.plain_string("a label")?,
                _ => self.word().into(),
            };
            if self.at == start {
                return Ok(labels);
            }
            labels.push(Name { text, span: self.span_from(start) });
        }
    }

    fn line_end(&mut self, key: &Name<'_>) -> SyntaxResult<()> {
        self.with_newlines(false, Self::skip_space)?;
        match self.peek() {
            None | Some('\n' | '}') => Ok(()),
            Some(',') => Err(self
                .unexpected("a new line")
                .help("attributes of a block stand on their own lines, without commas")),
            _ => Err(self.unexpected(&format!("a new line after `{}`", key.text))),
        }
    }

    /// Steps to the end of the line that is broken here, and over all that the item which began at `start` opened.
    fn recover(&mut self, start: usize, in_block: bool) {
        let broken = std::mem::replace(&mut self.at, start);
        let mut open = 0_usize;
        while let Some(c) = self.peek() {
            match c {
                '\n' if open == 0 && self.at >= broken => return,
                '}' if open == 0 && self.at >= broken && in_block => return,
                '{' | '[' | '(' => open += 1,
                '}' | ']' | ')' => open = open.saturating_sub(1),
                _ => {}
            }
            self.at += if c == '"' { self.string_length() } else { c.len_utf8() };
        }
    }

    /// Bytes of the string that begins here, up to its quote or, without one, the end of its line.
    fn string_length(&self) -> usize {
        let mut escaped = true;
        let end = self.rest().find(|c| {
            let ends = c == '\n' || c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(self.rest().len());
        end + usize::from(self.rest()[end..].starts_with('"'))
    }
}

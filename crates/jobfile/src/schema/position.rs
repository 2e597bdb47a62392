//! The positions of a block and its fields: spans of HCL, paths of JSON.

use super::Body;
use crate::{
    report::Position,
    source::Syntax,
    span::Span,
    tree::{Entry, EntryKind},
};

impl Body<'_> {
    /// The position of a field's value, or of the name of a block; of this block, if the field is absent.
    pub fn at(&self, name: &str) -> Position {
        match (self.entry(name), self.syntax) {
            (Some(Entry { key, kind: EntryKind::Block { .. }, .. }), Syntax::Hcl) => key.span.into(),
            (Some(entry), Syntax::Hcl) => entry.value.span.into(),
            (Some(entry), Syntax::Json) => Position::Path(self.path_of(&entry.key.text)),
            (None, _) => self.at_self(),
        }
    }

    /// The position of a field's name; of the block, if the field is absent.
    pub(super) fn at_key(&self, name: &str) -> Position {
        self.entry(name).map_or_else(|| self.at_self(), |entry| self.at_entry(entry))
    }

    /// The position of the block's label, or of the block.
    pub fn at_label(&self) -> Position {
        match (self.labels.first(), self.syntax) {
            (Some(label), Syntax::Hcl) => label.span.into(),
            (Some(_), Syntax::Json) => self.at_self(),
            (None, _) => self.at("label"),
        }
    }

    /// The position of an entry's key.
    pub fn at_entry(&self, entry: &Entry<'_>) -> Position {
        match self.syntax {
            Syntax::Hcl => entry.key.span.into(),
            Syntax::Json => Position::Path(self.path_of(&entry.key.text)),
        }
    }

    /// The position of the block.
    pub fn at_self(&self) -> Position {
        match self.syntax {
            Syntax::Hcl if self.schema.label.is_none() && self.span == Span::default() => Position::File,
            Syntax::Hcl => self.span.into(),
            Syntax::Json => Position::Path(self.path.clone()),
        }
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        if self.syntax == Syntax::Hcl { String::new() } else { [&self.path, ".", key].concat() }
    }
}

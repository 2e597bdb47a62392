//! JSON text to values. Positions are paths, as most JSON comes on one line.

use std::{borrow::Cow, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::{
    limits::DEPTH_MAX,
    report::Report,
    span::Span,
    tree::{Entry, EntryKind, Name, Node, Tree},
};

/// The help for what does not begin like the JSON of a job.
const IS_HCL: &str = "a job in JSON begins with `{`; if this is HCL, give the file a name that does not end in .json, and \
                      leave -json out";

/// The whole document; null, and a mistake in the report, if it is not JSON.
pub(crate) fn document<'s>(source: &'s str, report: &Report<'_>) -> Node<'s> {
    let mut deserializer = serde_json::Deserializer::from_str(source);
    let read = DepthSeed(0).deserialize(&mut deserializer).and_then(|node| deserializer.end().map(|()| node));
    read.unwrap_or_else(|fault| {
        let message = fault.to_string();
        // The library ends its messages with the place, which the report shows in its own way.
        let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
        let at = offset(source, fault.line(), fault.column());
        let (at, message) = (Span::new(at, at + 1), format!("not valid JSON: {what}"));
        // HCL is read as JSON where the file's name or a flag says so.
        match source.trim_start().starts_with(|first: char| first.is_ascii_alphabetic()) {
            true => report.error_with_help(at, message, IS_HCL),
            false => report.error(at, message),
        }
        node(Tree::Null)
    })
}

/// The byte at a line and a column, both from 1.
fn offset(source: &str, line: usize, column: usize) -> usize {
    let before: usize = source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    before + column.saturating_sub(1)
}

fn node(tree: Tree<'_>) -> Node<'_> {
    Node { span: Span::default(), tree }
}

/// Reads a value that stands so many lists and objects deep.
#[derive(Clone, Copy)]
struct DepthSeed(usize);

impl DepthSeed {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let fits = self.0 < DEPTH_MAX;
        fits.then_some(Self(self.0 + 1))
            .ok_or_else(|| E::custom(format!("nested more than {DEPTH_MAX} levels deep")))
    }
}

impl<'de> DeserializeSeed<'de> for DepthSeed {
    type Value = Node<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node<'de>, D::Error> {
        deserializer.deserialize_any(self).map(node)
    }
}

impl<'de> Visitor<'de> for DepthSeed {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree<'de>, E> {
        Ok(i64::try_from(value).map_or(Tree::Float(value as f64), Tree::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree<'de>, E> {
        Ok(Tree::Float(value))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Tree<'de>, E> {
        Text.visit_borrowed_str(value).map(Tree::Text)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree<'de>, E> {
        Text.visit_str(value).map(Tree::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree<'de>, A::Error> {
        let level = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(level)? {
            list.push(item);
        }
        Ok(Tree::List(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree<'de>, A::Error> {
        let level = self.deeper()?;
        let mut entries = Vec::new();
        while let Some(text) = members.next_key_seed(Text)? {
            let key = Name { text, span: Span::default() };
            entries.push(Entry { key, kind: EntryKind::Attribute, value: members.next_value_seed(level)? });
        }
        Ok(Tree::Object(entries.into()))
    }
}

/// Reads text, without copying it where it stands in the source as it is meant.
#[derive(Clone, Copy)]
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    /// No program's argument, variable or path can hold a NUL.
    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Cow<'de, str>, E> {
        if value.contains('\0') { Err(nul()) } else { Ok(Cow::Borrowed(value)) }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Cow<'de, str>, E> {
        if value.contains('\0') { Err(nul()) } else { Ok(Cow::Owned(value.to_owned())) }
    }
}

fn nul<E: Error>() -> E {
    E::custom("text has a NUL character")
}

//! Names that do not belong where they stand: misspelt, or misplaced.

use super::{Body, Schema, tables::ALL};
use crate::{
    diagnostic::quoted,
    source::Syntax,
    suggest::nearest,
    tree::{Entry, EntryKind},
};

/// Reports an entry that is none of the block's fields, unless it says nothing. A mistake, but for jobs in JSON: newer clients
/// than this server send what it does not know without their users having asked for anything.
pub(super) fn report(body: &Body<'_>, entry: &Entry<'_>) {
    if body.syntax == Syntax::Json && may_be_ignored(body, entry) {
        return;
    }
    let (key, at) = (&*entry.key.text, body.at_entry(entry));
    let message = || format!("unknown {} {} in {}", kind(body, entry), quoted(key), body.what());
    if body.syntax == Syntax::Json && body.report.ignores_unknown_keys() {
        let nothing = || "it is not kept, and changes nothing".to_owned();
        let words = || (message() + " is left out", help(body, key).unwrap_or_else(nothing));
        return body.report.ignored_key(at, words);
    }
    if body.report.is_full() {
        return body.report.error_of_form(at, String::new());
    }
    body.report.note_of_form(at, message(), help(body, key));
}

/// The field that an unknown entry of HCL seems to mean, by its position in the table. In JSON such a key is left out, and what it
/// may mean is missing.
pub(super) fn intended_field(body: &Body<'_>, entry: &Entry<'_>) -> Option<usize> {
    let key = &*entry.key.text;
    if body.syntax == Syntax::Json || belongs_elsewhere(body, key).is_some() {
        return None;
    }
    nearest(key, own_names(body)).and_then(|name| body.position(name))
}

/// What clients send without their users having asked for anything.
fn may_be_ignored(body: &Body<'_>, entry: &Entry<'_>) -> bool {
    body.schema.server_owned.contains(&&*entry.key.text) || entry.value.tree.is_empty()
}

fn kind(body: &Body<'_>, entry: &Entry<'_>) -> &'static str {
    match (&entry.kind, body.syntax) {
        (_, Syntax::Json) => "key",
        (EntryKind::Attribute, Syntax::Hcl) => "attribute",
        (EntryKind::Block { .. }, Syntax::Hcl) => "block",
    }
}

fn help(body: &Body<'_>, key: &str) -> Option<String> {
    if let Some(owner) = belongs_elsewhere(body, key) {
        return Some(format!("{} belongs in {}", quoted(key), owner.what));
    }
    nearest(key, own_names(body)).map(|name| format!("did you mean `{name}`?"))
}

/// The first block that has such a field.
fn belongs_elsewhere(body: &Body<'_>, key: &str) -> Option<&'static Schema> {
    let has = |schema: &Schema| schema.fields.iter().any(|field| body.spelling(field) == key);
    ALL.iter().copied().find(|schema| has(schema))
}

fn own_names<'b>(body: &'b Body<'_>) -> impl Iterator<Item = &'static str> + Clone + 'b {
    let spelled = body.schema.fields.iter().map(|field| body.spelling(field));
    spelled.chain(body.schema.label).filter(|name| !name.is_empty())
}

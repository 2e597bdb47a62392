//! Names that do not belong where they stand: misspelt, misplaced, or not supported yet.

use super::{Body, Field, tables::ALL};
use crate::{
    diagnostic::quoted,
    source::Syntax,
    suggest::nearest,
    tree::{Entry, Form, Tree},
};

/// Reports an entry that is none of the block's fields, unless it says nothing.
pub(super) fn report(body: &Body<'_>, entry: &Entry) {
    let key = entry.key.text.as_str();
    let is_later = !key.is_empty() && body.schema.later.iter().any(|field| body.spelling(field) == key);
    if body.syntax == Syntax::Json && may_be_ignored(body, entry, is_later) {
        return;
    }
    let at = body.at_entry(entry);
    if body.report.is_full() {
        body.report.error(at, String::new());
    } else if is_later {
        let message = format!("{} is not supported yet in {}", quoted(key), body.what());
        body.report.error_with_help(
            at,
            message,
            "take it out; it is refused because ignoring it would change what runs",
        );
    } else {
        let message = format!("unknown {} {} in {}", kind(body, entry), quoted(key), body.what());
        body.report.note(at, message, help(body, key));
    }
}

/// What clients send without their users having asked for anything.
fn may_be_ignored(body: &Body<'_>, entry: &Entry, is_later: bool) -> bool {
    let tree = &entry.value.tree;
    body.schema.server_owned.contains(&entry.key.text.as_str())
        || is_later && tree.is_empty()
        || matches!(tree, Tree::Null)
}

fn kind(body: &Body<'_>, entry: &Entry) -> &'static str {
    match (&entry.form, body.syntax) {
        (_, Syntax::Json) => "key",
        (Form::Attribute, Syntax::Hcl) => "attribute",
        (Form::Block { .. }, Syntax::Hcl) => "block",
    }
}

fn help(body: &Body<'_>, key: &str) -> Option<String> {
    let spelled = |field: &'static Field| body.spelling(field);
    if let Some(owner) = ALL.iter().find(|schema| schema.fields.iter().any(|field| spelled(field) == key)) {
        return Some(format!("{} belongs in {}", quoted(key), owner.what));
    }
    let own = body.schema.fields.iter().chain(body.schema.later).map(spelled).chain(body.schema.label);
    nearest(key, own.filter(|name| !name.is_empty())).map(|name| format!("did you mean `{name}`?"))
}

//! Names and ids. Groups and tasks name directories on the nodes, so that a name must never be a path.

use std::collections::HashSet;

use crate::{diagnostic::quoted, limits::NAME_BYTES_MAX, report::At, schema::Body};

/// The block's label, which must be a sound id for a job and a sound name for anything else.
pub(super) fn label(body: &Body<'_>) -> String {
    let label = body.label().unwrap_or_default();
    check_id(body, &label, body.at_label());
    // Ids of jobs hold slashes where jobs make other jobs.
    if body.what() != "job" && (label.contains(['/', '\\']) || label.contains("..") || label == ".") {
        let message = format!("{} cannot be the name of a {}", quoted(&label), body.what());
        body.report.error_with_help(body.at_label(), message, "`/`, `\\` and `..` would make a path of it");
    }
    label
}

/// Reports an id that is missing, too long, or hard to type.
pub(super) fn check_id(body: &Body<'_>, id: &str, at: At) {
    let what = body.what();
    if id.is_empty() {
        body.report.error(at, format!("{what} has no name"));
    } else if id.len() > NAME_BYTES_MAX {
        let message = format!("name of {what} has {} bytes, the limit is {NAME_BYTES_MAX}", id.len());
        body.report.error(at, message);
    } else if id.contains(|c: char| c.is_whitespace() || c.is_control()) {
        body.report.error(at, format!("name of {what} {} holds space or control characters", quoted(id)));
    }
}

/// Reports a namespace that cannot be.
pub(super) fn check_namespace(body: &Body<'_>, namespace: &str) {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if namespace.is_empty() || namespace.len() > NAME_BYTES_MAX || !namespace.chars().all(sound) {
        let message = format!("{} cannot be a namespace", quoted(namespace));
        let help = format!("a namespace is 1 to {NAME_BYTES_MAX} letters, digits and dashes");
        body.report.error_with_help(body.at("namespace"), message, help);
    }
}

/// Reports a block whose label was seen before.
pub(super) fn check_unique(body: &Body<'_>, seen: &mut HashSet<String>) {
    let label = body.label().unwrap_or_default();
    let message = format!("{} {} is given twice", body.what(), quoted(&label));
    // Missing labels have been reported as such.
    if !seen.insert(label.clone()) && !label.is_empty() {
        body.report.error(body.at_label(), message);
    }
}

//! Names and ids. Groups and tasks name directories on the nodes, so that a name must never be a path.

use std::collections::HashSet;

use crate::{diagnostic::quoted, limits::NAME_BYTES_MAX, report::Position, schema::Body};

/// The block's label, which must be a sound id for a job and a sound name for anything else.
pub(super) fn label(body: &Body<'_>) -> String {
    let label = body.label().unwrap_or_default();
    check_id(body, &label, || body.at_label());
    // Ids of jobs hold slashes where jobs make other jobs.
    if body.what() != "job" && (label.contains(['/', '\\']) || label.contains("..") || label == ".") {
        let message = format!("{} cannot be the name of a {}", quoted(&label), body.what());
        body.report.error_with_help(body.at_label(), message, "`/`, `\\` and `..` would make a path of it");
    } else if let Some(help) = taken_by_nodes(&label).filter(|_| body.what() == "task") {
        let message = format!("{} cannot be the name of a task", quoted(&label));
        body.report.error_with_help(body.at_label(), message, help);
    }
    label
}

/// Why nodes have no directory of this name for a task.
fn taken_by_nodes(name: &str) -> Option<&'static str> {
    match name {
        "alloc" => Some("beside the directories of tasks, `alloc` is the one that they share"),
        _ if name.starts_with('.') => Some("nodes make no directory whose name begins with `.`"),
        _ => None,
    }
}

/// Reports an id that is missing, too long, or hard to type.
pub(super) fn check_id(body: &Body<'_>, id: &str, at: impl FnOnce() -> Position) {
    let what = body.what();
    if id.is_empty() {
        body.report.error(at(), format!("{what} has no name"));
    } else if id.len() > NAME_BYTES_MAX {
        let message = format!("name of {what} has {} bytes, the limit is {NAME_BYTES_MAX}", id.len());
        body.report.error(at(), message);
    } else if let Some(found) = id.chars().find(|c| c.is_whitespace() || is_deceptive(*c)) {
        let message = format!(
            "name of {what} {} holds U+{:04X}, a space or a character that does not show",
            quoted(id),
            found as u32
        );
        body.report.error(at(), message);
    } else if what == "job" && id.split('/').any(|part| matches!(part, "." | "..")) {
        let message = format!("name of {what} {} has `.` or `..` between slashes", quoted(id));
        body.report.error_with_help(at(), message, "as a path it would lead elsewhere");
    }
}

/// Reports a name for people that is too long for any list, or shows as something else than it is.
pub(super) fn check_shown(body: &Body<'_>, name: &str, at: impl FnOnce() -> Position) {
    if name.len() > NAME_BYTES_MAX {
        let message = format!("`name` has {} bytes, the limit is {NAME_BYTES_MAX}", name.len());
        body.report.error(at(), message);
    } else if let Some(found) = name.chars().find(|c| is_deceptive(*c)) {
        let message = format!("`name` {} holds U+{:04X}, which does not show", quoted(name), found as u32);
        body.report.error(at(), message);
    }
}

/// Whether a character moves the cursor, changes the direction of what follows, or does not show at all: a name with one
/// reads as another.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
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
    // Missing labels have been reported as such.
    if seen.contains(&label) && !label.is_empty() {
        let message = format!("{} {} is given twice", body.what(), quoted(&label));
        body.report.error(body.at_label(), message);
    }
    seen.insert(label);
}

//! Quotes ids so that a shell may put them on a command line. They come from strangers: an id that reads as shell code must never
//! run.

use std::borrow::Cow;

/// What a shell puts on the line for a value that is offered to it; none for a value that cannot be typed, or shows as
/// something else than it is.
///
/// Bash puts it there as it is, so that it must be quoted here; zsh and fish quote it themselves.
pub(super) fn quoted<'v>(shell: &str, value: &'v str) -> Option<Cow<'v, str>> {
    if value.is_empty() || value.chars().any(berth_jobfile::is_deceptive) {
        return None;
    }
    match shell {
        "zsh" | "fish" => Some(value.into()),
        _ => Some(backslashed(value)),
    }
}

/// What a word on a line stands for, so that one which is quoted already goes on.
pub(super) fn unquoted<'w>(shell: &str, word: &'w str) -> Cow<'w, str> {
    if shell != "bash" || !word.contains('\\') {
        return word.into();
    }
    let mut chars = word.chars();
    let mut plain = String::with_capacity(word.len());
    while let Some(char) = chars.next() {
        plain.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    plain.into()
}

/// Each character that could mean something to a shell behind a backslash.
fn backslashed(value: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_./:=@%+,-".contains(c);
    if value.chars().all(is_plain) {
        return value.into();
    }
    let quoted = value.chars().flat_map(|c| (!is_plain(c)).then_some('\\').into_iter().chain([c]));
    quoted.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const HOSTILE: &[&str] = &[
        "$(touch x)",
        "`touch x`",
        "a;touch x",
        "a|b",
        "a&b",
        "a>b",
        "*",
        "?",
        "[ab]",
        "{a,b}",
        "~root",
        "!!",
        "'a",
        "\"a",
        "\\",
        "a b",
        "#a",
        "$HOME",
        "(a)",
        "é$x",
    ];

    #[test]
    fn what_bash_puts_on_the_line_is_the_id_and_nothing_runs() {
        for id in HOSTILE {
            let line = format!("printf %s {}", quoted("bash", id).expect("it can be typed"));
            let Ok(ran) = Command::new("bash").args(["--norc", "-c", &line]).output() else {
                eprintln!("skipped: there is no bash here");
                return;
            };
            assert_eq!(String::from_utf8_lossy(&ran.stdout), **id, "{line}");
            assert_eq!(unquoted("bash", &quoted("bash", id).expect("it can be typed")), **id);
        }
    }

    #[test]
    fn plain_ids_stay_as_they_are_and_others_quote_for_themselves() {
        assert_eq!(quoted("bash", "batch/web-1.2").as_deref(), Some("batch/web-1.2"));
        assert_eq!(quoted("zsh", "$(x)").as_deref(), Some("$(x)"));
        assert_eq!(quoted("fish", "$(x)").as_deref(), Some("$(x)"));
        assert_eq!(unquoted("fish", "a\\b"), "a\\b");
    }

    #[test]
    fn what_cannot_be_typed_or_shows_as_something_else_is_not_offered() {
        for id in ["", "a\nb", "a\u{1b}[2J", "a\u{202e}b", "a\u{200b}b", "a\tb"] {
            assert_eq!(quoted("zsh", id), None, "{id:?}");
        }
    }
}

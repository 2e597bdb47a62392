//! Lines `NAME=value`, as a template with `env = true` renders them.

use std::collections::BTreeMap;

/// Names and values of one file, in bytes: a process that starts is given its environment in 2 MiB by most kernels.
const BYTES_MAX: usize = 1 << 20;

/// The variables of a file. Empty lines and those that begin with `#` count nothing, and `export` may stand before a name. A value
/// may stand in quotes: in double ones, `\n`, `\r`, `\t`, `\"`, `\\` and `\$` are read.
///
/// # Errors
/// Which line is none, and why; nothing of what is in it, for that may be secret.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    if text.len() > BYTES_MAX {
        return Err(format!("it has {} bytes; the variables of one file may have {BYTES_MAX}", text.len()));
    }
    for (at, line) in text.lines().enumerate() {
        let wrong = |why: &str| format!("line {}: {why}", at + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let (name, value) = line.split_once('=').ok_or_else(|| wrong("it is no NAME=value"))?;
        let name = name.trim_end();
        if !is_name(name) {
            return Err(wrong(
                "before `=` stands no name: letters, digits, `_`, `.` and `-`, and no digit first",
            ));
        }
        all.insert(name.to_owned(), value_of(value.trim_start()).map_err(wrong)?);
    }
    Ok(all)
}

fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_allowed)
}

fn value_of(text: &str) -> Result<String, &'static str> {
    let value = match text.chars().next() {
        Some('"') => double_quoted(&text[1..])?,
        Some('\'') => {
            let (value, rest) = text[1..].split_once('\'').ok_or("the value has no closing quote")?;
            ends(rest)?;
            value.to_owned()
        }
        _ => text.split_once(" #").map_or(text, |(value, _)| value).trim_end().to_owned(),
    };
    if value.contains('\0') { Err("the value has a zero byte") } else { Ok(value) }
}

fn double_quoted(text: &str) -> Result<String, &'static str> {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                ends(chars.as_str())?;
                return Ok(out);
            }
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some(other @ ('"' | '\\' | '$' | '`')) => out.push(other),
                _ => return Err("an unknown escape: known are \\n \\r \\t \\\" \\\\ \\$"),
            },
            other => out.push(other),
        }
    }
    Err("the value has no closing quote")
}

/// Nothing but a comment follows a quoted value.
fn ends(rest: &str) -> Result<(), &'static str> {
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') { Ok(()) } else { Err("something follows the closing quote") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_variables() {
        let text = "# a comment\n\nA=1\n export B = two words # not part\nC=\"x\\ty\\\"#\" # c\nD='it is $raw'\nE=\nA=2\r\nf.g-h=x#y\nK==\n";
        let read: Vec<(String, String)> = parse(text).expect("good").into_iter().collect();
        let expected = [
            ("A", "2"),
            ("B", "two words"),
            ("C", "x\ty\"#"),
            ("D", "it is $raw"),
            ("E", ""),
            ("K", "="),
            ("f.g-h", "x#y"),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn errors_do_not_quote_the_text() {
        for (text, why) in [
            ("A=1\nsecret", "line 2: it is no NAME=value"),
            ("1A=secret", "line 1: before `=` stands no name"),
            ("A B=secret", "line 1: before `=` stands no name"),
            ("A=\"secret", "line 1: the value has no closing quote"),
            ("A='secret", "line 1: the value has no closing quote"),
            ("A='secret' x", "line 1: something follows the closing quote"),
            ("A=\"\\q\"", "line 1: an unknown escape"),
            ("A=\0", "line 1: the value has a zero byte"),
        ] {
            let message = parse(text).expect_err(text);
            assert!(message.starts_with(why) && !message.contains("secret"), "{message}");
        }
        assert!(parse(&format!("A={}", "x".repeat(BYTES_MAX))).is_err());
    }
}

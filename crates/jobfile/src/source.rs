//! A source before it is read: its size, its encoding and its syntax.

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Excerpt, Location},
    limits::SOURCE_BYTES_MAX,
};

/// How a job is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    Hcl,
    Json,
}

/// Guesses the syntax from the first character, or the file's name.
pub(crate) fn syntax_of(source: &str, file: &str) -> Syntax {
    let json = source.trim_start().starts_with('{') || file.ends_with(".json");
    if json { Syntax::Json } else { Syntax::Hcl }
}

/// The encoding that a byte order mark names, if it is not UTF-8.
fn encoding_of(source: &[u8]) -> Option<&'static str> {
    let starts = |mark: &[u8]| source.starts_with(mark);
    if starts(b"\xff\xfe") || starts(b"\xfe\xff") { Some("UTF-16") } else { None }
}

/// The text without its byte order mark, if it is not too long and is UTF-8 without NUL.
pub(crate) fn checked<'s>(source: &'s [u8], file: &str) -> Result<&'s str, Diagnostics> {
    if source.len() > SOURCE_BYTES_MAX {
        // Readers stop one byte behind the limit, so that the length says no more than that.
        let limit = SOURCE_BYTES_MAX >> 20;
        return Err(Diagnostic::of_file(file, format!("job file has more than {limit} MiB")).into());
    }
    let (valid, broken) = match str::from_utf8(source) {
        Ok(text) => (text, None),
        Err(e) => {
            let valid = source.get(..e.valid_up_to()).and_then(|s| str::from_utf8(s).ok());
            (valid.unwrap_or_default(), Some("this is not UTF-8 from here on"))
        }
    };
    let nul = valid.find('\0').map(|at| (at, "this is not text: it has a NUL byte"));
    if let Some((at, message)) = nul.or(broken.map(|message| (valid.len(), message))) {
        let location = Location::Line(Excerpt::of(valid, at..at + 1));
        let help = encoding_of(source).map(|name| format!("it is in {name}: save it in UTF-8"));
        return Err(Diagnostic { location, help, ..Diagnostic::of_file(file, message) }.into());
    }
    Ok(valid.strip_prefix('\u{feff}').unwrap_or(valid))
}

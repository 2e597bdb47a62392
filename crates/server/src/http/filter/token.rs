//! The words of a filter expression, and where they stand.

use super::Mistake;

/// A word and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: Kind,
    pub at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word(String),
    /// In quotes.
    Text(String),
    /// As written.
    Number(String),
    /// `==`, `!=`, or a single sign.
    Sign(&'static str),
    End,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(text) | Self::Number(text) => write!(f, "`{text}`"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
            Self::End => f.write_str("the end"),
        }
    }
}

const SIGNS: &[&str] = &["==", "!=", "(", ")", "[", "]", "{", "}", ".", ","];

/// The words of an expression; the last one is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Mistake> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { break };
        let (kind, length) = match first {
            '"' => quoted(rest, at)?,
            '`' => raw(rest, at)?,
            c if c.is_ascii_digit() || c == '-' => number(rest),
            c if c.is_alphabetic() || c == '_' => word(rest),
            _ => sign(rest, at)?,
        };
        tokens.push(Token { kind, at });
        at += length;
    }
    tokens.push(Token { kind: Kind::End, at: text.len() });
    Ok(tokens)
}

/// A text with the escapes of JSON.
fn quoted(rest: &str, at: usize) -> Result<(Kind, usize), Mistake> {
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    let (end, _) = end.ok_or_else(|| Mistake::new(at, "this text has no closing quote"))?;
    let text = serde_json::from_str(&rest[..=end])
        .map_err(|_| Mistake::new(at, "this text has an escape that is none, as in \"\\n\" or \"\\\"\""))?;
    Ok((Kind::Text(text), end + 1))
}

/// A text without escapes.
fn raw(rest: &str, at: usize) -> Result<(Kind, usize), Mistake> {
    let end = rest[1..].find('`').ok_or_else(|| Mistake::new(at, "this text has no closing quote"))?;
    Ok((Kind::Text(rest[1..=end].to_owned()), end + 2))
}

fn number(rest: &str) -> (Kind, usize) {
    let bytes = rest.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let goes_on = |at: usize| bytes[at].is_ascii_alphanumeric() || bytes[at] == b'.' && is_digit(at + 1);
    let length = (1..bytes.len()).find(|at| !goes_on(*at)).unwrap_or(bytes.len());
    (Kind::Number(rest[..length].to_owned()), length)
}

fn word(rest: &str) -> (Kind, usize) {
    let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
    (Kind::Word(rest[..length].to_owned()), length)
}

fn sign(rest: &str, at: usize) -> Result<(Kind, usize), Mistake> {
    let found = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    if let Some(sign) = found {
        return Ok((Kind::Sign(sign), sign.len()));
    }
    let first = rest.chars().next().unwrap_or_default();
    let reason = match first {
        '=' => "`=` is no operator: equality is `==`".to_owned(),
        '&' | '|' => format!("`{first}` is no operator: write `and` or `or`"),
        '<' | '>' => {
            format!("`{first}` is no operator: there is `==`, `!=`, `in`, `contains`, `matches`, `is empty`")
        }
        '\'' => "texts stand in double quotes".to_owned(),
        other => format!("`{}` means nothing here", other.escape_debug()),
    };
    Err(Mistake::new(at, reason))
}

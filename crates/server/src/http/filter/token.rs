//! The tokens of a filter expression, with their positions.

use super::FilterError;

/// A word and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name or a keyword.
    Word(String),
    /// Quoted text.
    Text(String),
    /// As written.
    Number(String),
    /// `==`, `!=`, or a single sign.
    Sign(&'static str),
    End,
}

impl std::fmt::Display for TokenKind {
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

/// The words of an expression; the last one is [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
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
    tokens.push(Token { kind: TokenKind::End, at: text.len() });
    Ok(tokens)
}

/// A text with the escapes of JSON.
fn quoted(rest: &str, at: usize) -> Result<(TokenKind, usize), FilterError> {
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    let (end, _) = end.ok_or_else(|| FilterError::new(at, "this text has no closing quote"))?;
    let text = serde_json::from_str(&rest[..=end]).map_err(|_| {
        FilterError::new(at, "this text has an escape that is none, as in \"\\n\" or \"\\\"\"")
    })?;
    Ok((TokenKind::Text(text), end + 1))
}

/// A text without escapes.
fn raw(rest: &str, at: usize) -> Result<(TokenKind, usize), FilterError> {
    let end = rest[1..].find('`').ok_or_else(|| FilterError::new(at, "this text has no closing quote"))?;
    Ok((TokenKind::Text(rest[1..=end].to_owned()), end + 2))
}

fn number(rest: &str) -> (TokenKind, usize) {
    let bytes = rest.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let goes_on = |at: usize| bytes[at].is_ascii_alphanumeric() || bytes[at] == b'.' && is_digit(at + 1);
    let length = (1..bytes.len()).find(|at| !goes_on(*at)).unwrap_or(bytes.len());
    (TokenKind::Number(rest[..length].to_owned()), length)
}

fn word(rest: &str) -> (TokenKind, usize) {
    let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
    (TokenKind::Word(rest[..length].to_owned()), length)
}

fn sign(rest: &str, at: usize) -> Result<(TokenKind, usize), FilterError> {
    let found = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    if let Some(sign) = found {
        return Ok((TokenKind::Sign(sign), sign.len()));
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
    Err(FilterError::new(at, reason))
}

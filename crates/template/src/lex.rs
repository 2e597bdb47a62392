//! Cuts a template into texts and the tokens of its actions.

use crate::error::{ErrorAt, Offset};
use crate::parse::Delimiters;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// What stands between actions, without what they trim.
    Text(String),
    /// An action begins.
    Open,
    /// An action ends.
    Close,
    /// A name: of a function, or a keyword.
    Word(String),
    /// A name after a dot.
    Field(String),
    Dot,
    /// A variable, with its `$`.
    Variable(String),
    Int(i64),
    Float(f64),
    String(String),
    Pipe,
    LeftParenthesis,
    RightParenthesis,
    Comma,
    Declare,
    Assign,
}

#[derive(Debug, Clone)]
pub(crate) struct Spanned {
    pub token: Token,
    pub at: Offset,
    /// Nothing stands between it and the token before.
    pub is_joined: bool,
}

/// All tokens of a template.
pub(crate) fn tokens(text: &str, delimiters: &Delimiters) -> Result<Vec<Spanned>, ErrorAt> {
    let mut lexer = Lexer { text, delimiters, at: 0, tokens: Vec::new() };
    lexer.all()?;
    Ok(lexer.tokens)
}

struct Lexer<'t> {
    text: &'t str,
    delimiters: &'t Delimiters,
    at: Offset,
    tokens: Vec<Spanned>,
}

pub(crate) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn push(&mut self, token: Token, at: Offset, is_joined: bool) {
        self.tokens.push(Spanned { token, at, is_joined });
    }

    fn all(&mut self) -> Result<(), ErrorAt> {
        let mut trims = false;
        loop {
            let rest = self.rest();
            let Some(found) = rest.find(&*self.delimiters.left) else {
                self.plain(rest, trims, false);
                return Ok(());
            };
            let start = self.at + found;
            let inside = &self.text[start + self.delimiters.left.len()..];
            // The marker has a space after it: `{{-3}}` is a number.
            let trims_left = inside.starts_with('-') && inside[1..].starts_with(is_space);
            self.plain(&rest[..found], trims, trims_left);
            self.at = start + self.delimiters.left.len() + if trims_left { 1 } else { 0 };
            let comment = self.rest().trim_start_matches(|c| trims_left && is_space(c));
            trims = if comment.starts_with("/*") {
                self.at = self.text.len() - comment.len();
                self.comment(start)?
            } else {
                self.push(Token::Open, start, false);
                self.action(start)?
            };
        }
    }

    fn plain(&mut self, text: &str, trims_start: bool, trims_end: bool) {
        let text = if trims_start { text.trim_start_matches(is_space) } else { text };
        let text = if trims_end { text.trim_end_matches(is_space) } else { text };
        if !text.is_empty() {
            self.push(Token::Text(text.to_owned()), self.at, false);
        }
    }

    /// Whether what follows it is trimmed.
    fn comment(&mut self, start: Offset) -> Result<bool, ErrorAt> {
        let end = self.rest().find("*/").ok_or_else(|| (start, "the comment has no end `*/`".to_owned()))?;
        self.at += end + 2;
        self.close().ok_or_else(|| {
            let right = &self.delimiters.right;
            (
                start,
                format!("nothing may stand in the action of a comment but `/* ... */`, and then {right:?}"),
            )
        })
    }

    /// Takes the end of an action, if it is here, or else the white space that is. Whether what follows the end is trimmed.
    fn close(&mut self) -> Option<bool> {
        let rest = self.rest();
        if let Some(after) = rest.strip_prefix(&*self.delimiters.right) {
            self.at = self.text.len() - after.len();
            return Some(false);
        }
        // At once: looked at again after each space, it would take time that grows with their square.
        let marked = rest.strip_prefix(is_space)?.trim_start_matches(is_space);
        let after = marked.strip_prefix('-').and_then(|marked| marked.strip_prefix(&*self.delimiters.right));
        self.at = self.text.len() - after.unwrap_or(marked).len();
        after.map(|_| true)
    }

    /// All tokens of an action, and its end.
    fn action(&mut self, start: Offset) -> Result<bool, ErrorAt> {
        let mut is_joined = false;
        loop {
            let at = self.at;
            if let Some(trims) = self.close() {
                self.push(Token::Close, at, is_joined);
                return Ok(trims);
            }
            if self.at > at {
                is_joined = false;
                continue;
            }
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                let right = &self.delimiters.right;
                return Err((start, format!("the action has no end {right:?}")));
            };
            let (token, len) = self.token(rest, first)?;
            self.at += len;
            self.push(token, at, is_joined);
            is_joined = true;
        }
    }

    fn token(&self, rest: &str, first: char) -> Result<(Token, usize), ErrorAt> {
        let wrong = |why: &str| Err((self.at, why.to_owned()));
        let name = |after: usize| {
            let len = rest[after..].find(|c| !is_name(c)).unwrap_or(rest.len() - after);
            &rest[after..after + len]
        };
        Ok(match first {
            '|' => (Token::Pipe, 1),
            '(' => (Token::LeftParenthesis, 1),
            ')' => (Token::RightParenthesis, 1),
            ',' => (Token::Comma, 1),
            ':' if rest.starts_with(":=") => (Token::Declare, 2),
            '=' => (Token::Assign, 1),
            '"' => self.quoted(rest)?,
            '`' => match rest[1..].find('`') {
                Some(len) => (Token::String(rest[1..=len].replace('\r', "")), len + 2),
                None => return wrong("the text after ` has no end"),
            },
            '\'' => self.character(rest)?,
            '$' => {
                let name = name(1);
                (Token::Variable(format!("${name}")), 1 + name.len())
            }
            '.' => match name(1) {
                "" => (Token::Dot, 1),
                digits if digits.starts_with(|c: char| c.is_ascii_digit()) => self.number(rest)?,
                field => (Token::Field(field.to_owned()), 1 + field.len()),
            },
            '0'..='9' => self.number(rest)?,
            '+' | '-' if rest[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                self.number(rest)?
            }
            c if c == '_' || c.is_alphabetic() => {
                let word = name(0);
                (Token::Word(word.to_owned()), word.len())
            }
            other => return Err((self.at, format!("{other:?} has no meaning here"))),
        })
    }

    fn quoted(&self, rest: &str) -> Result<(Token, usize), ErrorAt> {
        let (mut out, mut at) = (String::new(), 1);
        loop {
            match rest[at..].chars().next() {
                None | Some('\n') => return Err((self.at, "the text after \" has no end".to_owned())),
                Some('"') => return Ok((Token::String(out), at + 1)),
                Some('\\') => at += self.escape(&rest[at..], self.at + at, &mut out)?,
                Some(c) => {
                    out.push(c);
                    at += c.len_utf8();
                }
            }
        }
    }

    /// Reads what begins with a backslash; how long it is.
    fn escape(&self, rest: &str, at: Offset, out: &mut String) -> Result<usize, ErrorAt> {
        let unknown =
            || (at, "an unknown escape: known are \\n \\t \\r \\\\ \\\" \\' \\xHH \\uHHHH".to_owned());
        let kind = rest[1..].chars().next().ok_or_else(unknown)?;
        let simple = match kind {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'v' => Some('\u{b}'),
            '\\' | '"' | '\'' => Some(kind),
            _ => None,
        };
        if let Some(simple) = simple {
            out.push(simple);
            return Ok(2);
        }
        let (digits, from) = match kind {
            'x' => (2, 2),
            'u' => (4, 2),
            'U' => (8, 2),
            _ => return Err(unknown()),
        };
        let code = rest.get(from..from + digits).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        out.push(code.ok_or_else(unknown)?);
        Ok(from + digits)
    }

    fn character(&self, rest: &str) -> Result<(Token, usize), ErrorAt> {
        let wrong = || (self.at, "between ' stands one character".to_owned());
        let mut out = String::new();
        let len = match rest[1..].chars().next().ok_or_else(wrong)? {
            '\\' => self.escape(&rest[1..], self.at + 1, &mut out)?,
            '\'' => return Err(wrong()),
            c => {
                out.push(c);
                c.len_utf8()
            }
        };
        let code = out.chars().next().ok_or_else(wrong)?;
        if !rest[1 + len..].starts_with('\'') {
            return Err(wrong());
        }
        Ok((Token::Int(i64::from(u32::from(code))), len + 2))
    }

    fn number(&self, rest: &str) -> Result<(Token, usize), ErrorAt> {
        let signs = usize::from(rest.starts_with(['+', '-']));
        let is_hex = rest[signs..].starts_with("0x") || rest[signs..].starts_with("0X");
        let mut len = signs;
        while let Some(c) = rest[len..].chars().next() {
            let follows_exponent = !is_hex && rest[..len].ends_with(['e', 'E']) && matches!(c, '+' | '-');
            if !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || follows_exponent) {
                break;
            }
            len += c.len_utf8();
        }
        let text = &rest[..len];
        let token = number(text).ok_or_else(|| (self.at, format!("{text:?} is not a number of 64 bits")))?;
        Ok((token, len))
    }
}

fn number(text: &str) -> Option<Token> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.replace('_', "");
    let lower = digits.to_ascii_lowercase();
    let radix = |prefix: &str, radix| {
        let digits = lower.strip_prefix(prefix)?;
        i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
    };
    for (prefix, base) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if lower.starts_with(prefix) {
            return radix(prefix, base).map(Token::Int);
        }
    }
    if lower.bytes().all(|b| b.is_ascii_digit()) {
        let base = if lower.len() > 1 && lower.starts_with('0') { 8 } else { 10 };
        return i64::from_str_radix(&format!("{sign}{lower}"), base).ok().map(Token::Int);
    }
    let is_float = lower.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-'));
    let float: f64 = is_float.then(|| format!("{sign}{lower}").parse().ok())??;
    float.is_finite().then_some(Token::Float(float))
}

//! Values as text, the way Go prints them.

use std::fmt::Write;

use crate::limits::{OUTPUT_BYTES_MAX, PADDING_MAX};
use crate::value::Value;

/// What an action writes.
pub(crate) fn to_text(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Nil => out.push_str("<no value>"),
        other => write(other, &mut out),
    }
    out
}

/// Writes a value as Go's `%v` does.
pub(crate) fn write(value: &Value, out: &mut String) {
    let _ = match value {
        Value::Nil => out.write_str("<nil>"),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int(value) => write!(out, "{value}"),
        Value::Float(value) => out.write_str(&float(*value)),
        Value::Text(text) => out.write_str(text),
        Value::Record(_) => out.write_str(value.as_text().map_or("", |text| text)),
        Value::List(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                out.push_str(if at > 0 { " " } else { "" });
                write(value, out);
            }
            out.write_str("]")
        }
        Value::Map(_) | Value::Items(_) => {
            out.push_str("map[");
            for (at, (key, value)) in value.as_map().into_iter().flatten().enumerate() {
                out.push_str(if at > 0 { " " } else { "" });
                let _ = write!(out, "{key}:");
                write(value, out);
            }
            out.write_str("]")
        }
    };
}

/// The shortest text that is read as the same number: with an exponent below 10⁻⁴, and from 10⁶ on.
pub(crate) fn float(value: f64) -> String {
    if !value.is_finite() {
        let sign = if value < 0.0 { "-" } else { "+" };
        return if value.is_nan() { "NaN".to_owned() } else { format!("{sign}Inf") };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        return with_exponent(digits, exponent);
    }
    format!("{value}")
}

/// So many digits at most, without zeros at the end: with an exponent below 10⁻⁴, and where more digits would stand before the point
/// (`%e` and `%f` of Go's strconv, `FormatFloat` with 'g').
fn significant(value: f64, digits_max: usize) -> String {
    if !value.is_finite() {
        return float(value);
    }
    let digits_max = digits_max.max(1);
    let scientific = format!("{value:.*e}", digits_max - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mantissa =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let before_point = exponent.saturating_add(1);
    let count = |digits: usize| i32::try_from(digits).unwrap_or(i32::MAX);
    let is_short = digits_max > digits && count(digits) >= before_point;
    let most = count(if is_short { digits } else { digits_max });
    if exponent < -4 || exponent >= most {
        return with_exponent(mantissa, exponent);
    }
    let decimals = usize::try_from(count(digits) - before_point).unwrap_or(0);
    // By way of the digits that are left: rounded once.
    let rounded: f64 = format!("{mantissa}e{exponent}").parse().unwrap_or(value);
    format!("{rounded:.decimals$}")
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// `print`: spaces between values of which neither is a text.
pub(crate) fn print(values: &[Value]) -> String {
    let mut out = String::new();
    for (at, value) in values.iter().enumerate() {
        if at > 0 && value.as_text().is_none() && values[at - 1].as_text().is_none() {
            out.push(' ');
        }
        write(value, &mut out);
    }
    out
}

/// `println`: spaces between all, and a line's end.
pub(crate) fn println(values: &[Value]) -> String {
    let mut out = String::new();
    for (at, value) in values.iter().enumerate() {
        out.push_str(if at > 0 { " " } else { "" });
        write(value, &mut out);
    }
    out.push('\n');
    out
}

#[derive(Debug, Default)]
struct Verb {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

/// `printf`.
///
/// # Errors
/// When the format is wrong. A value that does not fit its verb is shown as Go shows it, as `%!d(string=x)`.
pub(crate) fn printf(format: &str, values: &[Value]) -> Result<String, String> {
    let (mut out, mut rest, mut values) = (String::new(), format, values.iter());
    while let Some(at) = rest.find('%') {
        if out.len() > OUTPUT_BYTES_MAX {
            return Err(format!("it makes more than {OUTPUT_BYTES_MAX} bytes, the limit of one template"));
        }
        out.push_str(&rest[..at]);
        let (verb, kind, after) = verb(&rest[at + 1..])?;
        rest = after;
        if kind == '%' {
            out.push('%');
            continue;
        }
        match values.next() {
            Some(value) => out.push_str(&verb.padded(&verb.format(kind, value), value)),
            None => {
                let _ = write!(out, "%!{kind}(MISSING)");
            }
        }
    }
    out.push_str(rest);
    let extra: Vec<String> = values.map(|value| format!("{}={}", value.kind(), plain(value))).collect();
    if !extra.is_empty() {
        let _ = write!(out, "%!(EXTRA {})", extra.join(", "));
    }
    Ok(out)
}

fn plain(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// Reads what follows a `%`.
fn verb(text: &str) -> Result<(Verb, char, &str), String> {
    let mut verb = Verb::default();
    let mut rest = text;
    while let Some(flag) = rest.chars().next() {
        match flag {
            '-' => verb.minus = true,
            '+' => verb.plus = true,
            '#' => verb.sharp = true,
            ' ' => verb.space = true,
            '0' => verb.zero = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    let mut number = || -> Result<Option<usize>, String> {
        let len = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(len);
        rest = after;
        if digits.is_empty() {
            return Ok(None);
        }
        let number = digits.parse().ok().filter(|number| *number <= PADDING_MAX);
        number.map(Some).ok_or_else(|| format!("a width is too large: printf pads to {PADDING_MAX} at most"))
    };
    verb.width = number()?.unwrap_or(0);
    if let Some(after) = rest.strip_prefix('.') {
        rest = after;
        let len = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(len);
        rest = after;
        let precision = if digits.is_empty() { Some(0) } else { digits.parse().ok() };
        verb.precision = Some(
            precision
                .filter(|number| *number <= PADDING_MAX)
                .ok_or_else(|| format!("a precision is too large: printf takes {PADDING_MAX} at most"))?,
        );
    }
    let kind = rest.chars().next().ok_or("the format ends with an open %: write %% for the sign itself")?;
    if matches!(kind, '*' | '[') {
        return Err(format!("%{kind} in a format is not implemented: write the number itself"));
    }
    Ok((verb, kind, &rest[kind.len_utf8()..]))
}

impl Verb {
    fn format(&self, kind: char, value: &Value) -> String {
        let mismatch = || {
            let kind_of = value.kind();
            if matches!(value, Value::Nil) {
                format!("%!{kind}(<nil>)")
            } else {
                format!("%!{kind}({kind_of}={})", plain(value))
            }
        };
        match (kind, value) {
            ('v', Value::Text(text)) if self.sharp => quoted(text),
            ('v', Value::Int(number)) => self.signed(*number, |digits| digits.to_string()),
            ('v' | 'g', Value::Float(number)) => self.with_sign(match self.precision {
                Some(digits) => significant(*number, digits),
                None => float(*number),
            }),
            ('s' | 'v', value) if value.as_text().is_some() => {
                let text = plain(value);
                match self.precision {
                    Some(most) => text.chars().take(most).collect(),
                    None => text,
                }
            }
            ('s', Value::List(_) | Value::Map(_) | Value::Items(_)) | ('v', _) => plain(value),
            ('q', value) if value.as_text().is_some() => quoted(&plain(value)),
            ('q', Value::Int(number)) => match u32::try_from(*number).ok().and_then(char::from_u32) {
                Some(c) => format!("'{}'", c.escape_default()),
                None => mismatch(),
            },
            ('t', Value::Bool(value)) => value.to_string(),
            ('T', _) => value.kind().to_owned(),
            ('d', Value::Int(number)) => self.signed(*number, |digits| digits.to_string()),
            ('b', Value::Int(number)) => self.signed(*number, |digits| format!("{digits:b}")),
            ('o', Value::Int(number)) => self.signed(*number, |digits| format!("{digits:o}")),
            ('x', Value::Int(number)) => {
                self.signed(
                    *number,
                    |digits| if self.sharp { format!("{digits:#x}") } else { format!("{digits:x}") },
                )
            }
            ('X', Value::Int(number)) => {
                self.signed(
                    *number,
                    |digits| if self.sharp { format!("0X{digits:X}") } else { format!("{digits:X}") },
                )
            }
            ('c', Value::Int(number)) => {
                u32::try_from(*number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}').to_string()
            }
            ('x', value) if value.as_text().is_some() => hex(plain(value).as_bytes(), false),
            ('X', value) if value.as_text().is_some() => hex(plain(value).as_bytes(), true),
            ('f' | 'F', Value::Float(number)) => {
                let precision = self.precision.unwrap_or(6);
                self.with_sign(format!("{number:.precision$}"))
            }
            ('e', Value::Float(number)) => {
                let precision = self.precision.unwrap_or(6);
                let text = format!("{number:.precision$e}");
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                self.with_sign(with_exponent(digits, exponent.parse().unwrap_or(0)))
            }
            _ => mismatch(),
        }
    }

    fn signed(&self, number: i64, digits: impl Fn(u64) -> String) -> String {
        let mut text = digits(number.unsigned_abs());
        if let Some(least) = self.precision {
            text = format!("{}{text}", "0".repeat(least.saturating_sub(text.len())));
        }
        if number < 0 { format!("-{text}") } else { self.with_sign(text) }
    }

    fn with_sign(&self, text: String) -> String {
        if text.starts_with(['-', '+']) {
            text
        } else if self.plus {
            format!("+{text}")
        } else if self.space {
            format!(" {text}")
        } else {
            text
        }
    }

    fn padded(&self, text: &str, value: &Value) -> String {
        let lacks = self.width.saturating_sub(text.chars().count());
        if lacks == 0 {
            return text.to_owned();
        }
        if self.minus {
            return format!("{text}{}", " ".repeat(lacks));
        }
        let is_number = matches!(value, Value::Int(_) | Value::Float(_));
        if self.zero && (!is_number || self.precision.is_none() || matches!(value, Value::Float(_))) {
            let signs = usize::from(is_number && text.starts_with(['-', '+', ' ']));
            return format!("{}{}{}", &text[..signs], "0".repeat(lacks), &text[signs..]);
        }
        format!("{}{text}", " ".repeat(lacks))
    }
}

pub(crate) fn hex(bytes: &[u8], is_upper: bool) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = if is_upper { write!(out, "{byte:02X}") } else { write!(out, "{byte:02x}") };
        out
    })
}

/// As Go quotes a text.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let _ = match c {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\t' => out.write_str("\\t"),
            '\r' => out.write_str("\\r"),
            '\u{7}' => out.write_str("\\a"),
            '\u{8}' => out.write_str("\\b"),
            '\u{b}' => out.write_str("\\v"),
            '\u{c}' => out.write_str("\\f"),
            c if u32::from(c) < 0x20 || c == '\u{7f}' => write!(out, "\\x{:02x}", u32::from(c)),
            c => out.write_char(c),
        };
    }
    out.push('"');
    out
}

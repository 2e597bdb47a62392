//! Functions of times, which are text as `2026-01-31T12:00:00Z`.

use chrono::{DateTime, FixedOffset, TimeDelta};

use super::{Arguments, Function, function};
use crate::hcl::value::Value;

pub(super) static TABLE: &[Function] =
    &[function("formatdate", 2..=2, format_date), function("timeadd", 2..=2, add)];

fn time(arguments: &Arguments<'_>, at: usize) -> Result<DateTime<FixedOffset>, String> {
    let text = arguments.text(at)?;
    let time = DateTime::parse_from_rfc3339(&text);
    time.map_err(|_| format!("{text:?} is not a time, as \"2026-01-31T12:00:00Z\""))
}

/// A time moved by a duration, backwards if it begins with `-`.
fn add(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (time, span) = (time(arguments, 0)?, arguments.text(1)?);
    let (back, text) = span.strip_prefix('-').map_or((false, &*span), |rest| (true, rest));
    let delta = berth_duration::parse(text).and_then(|span| TimeDelta::from_std(span).ok());
    let delta = delta.ok_or_else(|| format!("{span:?} is not a duration, as \"1h30m\""))?;
    let moved = if back { time.checked_sub_signed(delta) } else { time.checked_add_signed(delta) };
    let moved = moved.ok_or("the time is out of range")?;
    Ok(Value::text(moved.format("%Y-%m-%dT%H:%M:%S%:z").to_string().replace("+00:00", "Z")))
}

/// Letters of a pattern and what they stand for, the longer of the same letter first.
const SEQUENCES: &[(&str, &str)] = &[
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("MMMM", "%B"),
    ("MMM", "%b"),
    ("MM", "%m"),
    ("M", "%-m"),
    ("DD", "%d"),
    ("D", "%-d"),
    ("EEEE", "%A"),
    ("EEE", "%a"),
    ("hh", "%H"),
    ("h", "%-H"),
    ("HH", "%I"),
    ("H", "%-I"),
    ("AA", "%p"),
    ("aa", "%P"),
    ("mm", "%M"),
    ("m", "%-M"),
    ("ss", "%S"),
    ("s", "%-S"),
    ("ZZZZZ", "%:z"),
    ("ZZZZ", "%z"),
    ("ZZZ", "%z"),
    ("Z", "%:z"),
];

/// A time by a pattern of letters, as `YYYY-MM-DD`; what stands in single quotes stands for itself.
fn format_date(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (pattern, time) = (arguments.text(0)?, time(arguments, 1)?);
    let (mut text, mut rest) = (String::new(), &*pattern);
    while let Some(c) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (literal, after) = quoted_literal(quoted).ok_or("a quote is not closed")?;
            text.push_str(&literal);
            rest = after;
        } else if c.is_ascii_alphabetic() {
            let run = rest.len() - rest.trim_start_matches(c).len();
            let sequence = SEQUENCES.iter().find(|(letters, _)| *letters == &rest[..run]);
            let (letters, format) =
                sequence.ok_or_else(|| format!("{:?} stands for nothing", &rest[..run]))?;
            let part = time.format(format).to_string();
            text.push_str(match (*letters, &*part) {
                ("Z", "+00:00") => "Z",
                ("ZZZ", "+0000") => "UTC",
                _ => &part,
            });
            rest = &rest[run..];
        } else {
            text.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok(Value::text(text))
}

/// What stands in quotes, of which the first one was read, and what follows them; none where they are not closed. Two quotes in a
/// row are one of the text itself, alone or within others.
fn quoted_literal(text: &str) -> Option<(String, &str)> {
    if let Some(after) = text.strip_prefix('\'') {
        return Some(("'".to_owned(), after));
    }
    let (mut literal, mut rest) = (String::new(), text);
    loop {
        let (part, after) = rest.split_once('\'')?;
        literal.push_str(part);
        let Some(more) = after.strip_prefix('\'') else { return Some((literal, after)) };
        literal.push('\'');
        rest = more;
    }
}

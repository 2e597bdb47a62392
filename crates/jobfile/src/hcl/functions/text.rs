//! Functions of text. Positions and lengths count characters.

use regex::{Regex, RegexBuilder};

use super::{Arguments, Function, check_bytes, function};
use crate::{diagnostic::quoted, hcl::value::Value};

/// Bytes that a compiled regular expression may take.
const REGEX_BYTES_MAX: usize = 1 << 20;

pub(super) static TABLE: &[Function] = &[
    function("chomp", 1..=1, |a| Ok(Value::text(a.text(0)?.trim_end_matches(['\n', '\r'])))),
    function("indent", 2..=2, indent),
    function("join", 2..=usize::MAX, join),
    function("lower", 1..=1, |a| Ok(Value::text(a.text(0)?.to_lowercase()))),
    function("regex_replace", 3..=3, regex_replace),
    function("replace", 3..=3, replace),
    function("split", 2..=2, split),
    function("strlen", 1..=1, |a| Ok(Value::Int(a.text(0)?.chars().count() as i64))),
    function("strrev", 1..=1, |a| Ok(Value::text(a.text(0)?.chars().rev().collect::<String>()))),
    function("substr", 3..=3, substr),
    function("title", 1..=1, |a| Ok(Value::text(title(&a.text(0)?)))),
    function("trim", 2..=2, |a| {
        let (text, set) = (a.text(0)?, a.text(1)?);
        Ok(Value::text(text.trim_matches(|c| set.contains(c))))
    }),
    function("trimprefix", 2..=2, |a| {
        let text = a.text(0)?;
        Ok(Value::text(text.strip_prefix(&*a.text(1)?).unwrap_or(&text)))
    }),
    function("trimspace", 1..=1, |a| Ok(Value::text(a.text(0)?.trim()))),
    function("trimsuffix", 2..=2, |a| {
        let text = a.text(0)?;
        Ok(Value::text(text.strip_suffix(&*a.text(1)?).unwrap_or(&text)))
    }),
    function("upper", 1..=1, |a| Ok(Value::text(a.text(0)?.to_uppercase()))),
];

/// Blanks in front of every line but the first.
fn indent(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (blanks, text) = (arguments.count(0)?, arguments.text(1)?);
    let lines = text.matches('\n').count();
    check_bytes(lines.saturating_mul(blanks).saturating_add(text.len()))?;
    Ok(Value::text(text.replace('\n', &format!("\n{}", " ".repeat(blanks)))))
}

/// The texts of one or more lists, with something in between.
fn join(arguments: &Arguments<'_>) -> Result<Value, String> {
    let between = arguments.text(0)?;
    let mut texts = Vec::new();
    for at in 1..arguments.values.len() {
        texts.extend(arguments.texts(at)?);
    }
    let bytes = texts.iter().map(|text| text.len()).sum::<usize>();
    check_bytes(between.len().saturating_mul(texts.len()).saturating_add(bytes))?;
    Ok(Value::text(texts.join(&between)))
}

fn replace(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (text, from, to) = (arguments.text(0)?, arguments.text(1)?, arguments.text(2)?);
    let times = if from.is_empty() { text.chars().count() + 1 } else { text.matches(&*from).count() };
    check_bytes(times.saturating_mul(to.len()).saturating_add(text.len()))?;
    Ok(Value::text(text.replace(&*from, &to)))
}

/// The time that a search takes grows with the text behind the last match and with the size of the expression, and each match is a search
/// of its own.
fn regex_replace(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (text, pattern, to) = (arguments.text(0)?, arguments.text(1)?, arguments.text(2)?);
    let (regex, weight) = compiled(&pattern)?;
    let references = to.matches('$').count();
    let (mut result, mut done) = (String::new(), 0);
    let mut matches = regex.captures_iter(&text);
    loop {
        arguments.look_at(weight.saturating_mul(text.len() - done))?;
        let Some(captures) = matches.next() else { break };
        let Some(found) = captures.get(0) else { continue };
        result.push_str(&text[done..found.start()]);
        // No group is longer than the match.
        let made = references.saturating_mul(found.len()).saturating_add(to.len());
        check_bytes(made.saturating_add(result.len()))?;
        captures.expand(&to, &mut result);
        done = found.end();
    }
    Ok(Value::text(result + &text[done..]))
}

/// A regular expression, and how much a byte of text weighs that it looks at.
fn compiled(pattern: &str) -> Result<(Regex, usize), String> {
    /// The most bytes that an expression may take when it is compiled, with that weight.
    const SIZES: [(usize, usize); 3] = [(64 << 10, 8), (256 << 10, 32), (REGEX_BYTES_MAX, 128)];
    for (bytes_max, weight) in SIZES {
        match RegexBuilder::new(pattern).size_limit(bytes_max).build() {
            Ok(regex) => return Ok((regex, weight)),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => return Err(format!("{} is not a regular expression", quoted(pattern))),
        }
    }
    Err(format!("{} takes more than {} KiB when it is compiled", quoted(pattern), REGEX_BYTES_MAX >> 10))
}

fn split(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (at, text) = (arguments.text(0)?, arguments.text(1)?);
    if at.is_empty() {
        return Ok(Value::list(text.chars().map(|c| Value::text(c.to_string())).collect()));
    }
    Ok(Value::list(text.split(&*at).map(Value::text).collect()))
}

/// Part of a text; a negative start counts from its end, a negative length means all the rest.
fn substr(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (text, start, length) = (arguments.text(0)?, arguments.whole(1)?, arguments.whole(2)?);
    let count = text.chars().count() as i64;
    let start = if start < 0 { (count + start).max(0) } else { start };
    let length = if length < 0 { count } else { length };
    Ok(Value::text(text.chars().skip(start as usize).take(length as usize).collect::<String>()))
}

/// A capital begins each word. Words begin where they do for Go's `strings.Title`: after an apostrophe too, not after `_`.
fn title(text: &str) -> String {
    let mut begins = true;
    let letter = |c: char| {
        let first = begins;
        begins = if c.is_ascii() { !c.is_ascii_alphanumeric() && c != '_' } else { c.is_whitespace() };
        if first { c.to_uppercase().collect::<String>() } else { c.to_string() }
    };
    text.chars().map(letter).collect()
}

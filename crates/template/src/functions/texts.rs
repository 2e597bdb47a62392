//! Texts.

use regex::{Regex, RegexBuilder};

use super::{Function, as_int, as_text, between, from, of};
use crate::eval::Evaluator;
use crate::limits::{REGEX_BYTES_MAX, REGEX_FACTOR, REGEX_STEPS};
use crate::print;
use crate::value::{Value, list, text};

pub(super) const FUNCTIONS: &[Function] = &[
    from("print", 0, |evaluator, arguments| Ok(text(printed(evaluator, arguments)?))),
    from("println", 0, |evaluator, arguments| {
        count(evaluator, arguments)?;
        Ok(text(print::println(arguments)))
    }),
    from("printf", 1, |evaluator, arguments| {
        count(evaluator, arguments)?;
        print::printf(as_text(&arguments[0])?, &arguments[1..]).map(text)
    }),
    of("toLower", 1, |_, arguments| Ok(text(as_text(&arguments[0])?.to_lowercase()))),
    of("toUpper", 1, |_, arguments| Ok(text(as_text(&arguments[0])?.to_uppercase()))),
    of("toTitle", 1, |_, arguments| Ok(text(title(as_text(&arguments[0])?)))),
    of("trimSpace", 1, |_, arguments| Ok(text(as_text(&arguments[0])?.trim()))),
    of("trim", 2, |evaluator, arguments| {
        let (set, from) = (as_text(&arguments[0])?, as_text(&arguments[1])?);
        // Each letter may be compared with all of the set.
        evaluator.budget.read(set.len().saturating_mul(from.len()))?;
        Ok(text(from.trim_matches(|c| set.contains(c))))
    }),
    of("trimPrefix", 2, |_, arguments| {
        let (prefix, from) = (as_text(&arguments[0])?, as_text(&arguments[1])?);
        Ok(text(from.strip_prefix(prefix).unwrap_or(from)))
    }),
    of("trimSuffix", 2, |_, arguments| {
        let (suffix, from) = (as_text(&arguments[0])?, as_text(&arguments[1])?);
        Ok(text(from.strip_suffix(suffix).unwrap_or(from)))
    }),
    of("replaceAll", 3, replace_all),
    of("split", 2, split),
    of("join", 2, join),
    of("indent", 2, indent),
    of("regexMatch", 2, |evaluator, arguments| {
        let within = as_text(&arguments[1])?;
        let regex = regex(evaluator, as_text(&arguments[0])?, within)?;
        Ok(Value::Bool(regex.is_match(within)))
    }),
    of("regexReplaceAll", 3, regex_replace_all),
    between("slice", 1, 3, slice),
    from("urlquery", 1, |evaluator, arguments| {
        let joined = printed(evaluator, arguments)?;
        let encoded = percent_encoding::utf8_percent_encode(&joined, QUERY).to_string();
        Ok(text(encoded.replace("%20", "+")))
    }),
    from("html", 1, |evaluator, arguments| {
        let joined = printed(evaluator, arguments)?;
        Ok(text(joined.chars().fold(String::new(), |mut out, c| {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&#34;"),
                '\'' => out.push_str("&#39;"),
                '\0' => out.push('\u{fffd}'),
                other => out.push(other),
            }
            out
        })))
    }),
];

/// Counts arguments that become one text, each as often as it is given.
fn count(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<(), String> {
    evaluator.budget.make(arguments.iter().map(Value::bytes).sum(), 0)
}

fn printed(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<String, String> {
    count(evaluator, arguments)?;
    Ok(print::print(arguments))
}

/// What stands as it is in a query of a URL.
const QUERY: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A capital begins each word. Words begin where they do for Go's `strings.Title`: after an apostrophe too, not after `_`.
fn title(from: &str) -> String {
    let (mut out, mut begins) = (String::with_capacity(from.len()), true);
    for c in from.chars() {
        if begins {
            out.extend(c.to_uppercase())
        } else {
            out.push(c)
        }
        begins = if c.is_ascii() { !c.is_ascii_alphanumeric() && c != '_' } else { c.is_whitespace() };
    }
    out
}

fn replace_all(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    let (from, to, within) = (as_text(&arguments[0])?, as_text(&arguments[1])?, as_text(&arguments[2])?);
    // Known before it is made: each occurrence may become much longer.
    evaluator.budget.make(within.matches(from).count().saturating_mul(to.len()), 0)?;
    Ok(text(within.replace(from, to)))
}

fn split(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    // White space around it is none of its parts, as in Nomad, and nothing has none.
    let (separator, from) = (as_text(&arguments[0])?, as_text(&arguments[1])?.trim());
    if from.is_empty() {
        return Ok(list(Vec::new()));
    }
    if separator.is_empty() {
        evaluator.budget.make(from.len(), from.len())?;
        return Ok(list(from.chars().map(|c| text(c.to_string())).collect()));
    }
    evaluator.budget.make(from.len(), from.matches(separator).count() + 1)?;
    Ok(list(from.split(separator).map(text).collect()))
}

fn join(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    let separator = as_text(&arguments[0])?;
    let values = super::as_list(&arguments[1])?;
    let texts = values.iter().map(as_text).collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    evaluator.budget.make(bytes.saturating_add(separator.len().saturating_mul(texts.len())), 0)?;
    Ok(text(texts.join(separator)))
}

fn indent(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    let (spaces, from) = (as_int(&arguments[0])?, as_text(&arguments[1])?);
    let spaces =
        usize::try_from(spaces).map_err(|_| "the number of spaces may not be negative".to_owned())?;
    evaluator.budget.make(from.lines().count().saturating_mul(spaces), 0)?;
    let spaces = " ".repeat(if from.is_empty() { 0 } else { spaces });
    let lines: Vec<String> = from
        .split('\n')
        .map(|line| if line.is_empty() { String::new() } else { format!("{spaces}{line}") })
        .collect();
    Ok(text(lines.join("\n")))
}

fn regex(evaluator: &mut Evaluator<'_>, pattern: &str, within: &str) -> Result<Regex, String> {
    evaluator.budget.steps(REGEX_STEPS)?;
    evaluator.budget.read(within.len().saturating_mul(REGEX_FACTOR))?;
    let built =
        RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("the regular expression is none: {reason}")
    })
}

fn regex_replace_all(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    let (pattern, to, within) = (as_text(&arguments[0])?, as_text(&arguments[1])?, as_text(&arguments[2])?);
    let regex = regex(evaluator, pattern, within)?;
    // Each `$1` of what replaces may stand for as much as there is.
    let groups = to.matches('$').count();
    let mut bytes = 0usize;
    for found in regex.find_iter(within) {
        bytes = bytes.saturating_add(to.len()).saturating_add(groups.saturating_mul(found.len()));
    }
    evaluator.budget.make(bytes, 0)?;
    Ok(text(regex.replace_all(within, to)))
}

/// Part of a text, by bytes, or of a list.
fn slice(_: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    let bound = |at: usize| {
        let bound = arguments.get(at).map(as_int).transpose()?;
        bound
            .map(|bound| usize::try_from(bound).map_err(|_| "a bound may not be negative".to_owned()))
            .transpose()
    };
    let (from, to) = (bound(1)?.unwrap_or(0), bound(2)?);
    let outside = || "the bounds lie outside of what is sliced".to_owned();
    match &arguments[0] {
        Value::List(values) => {
            Ok(list(values.get(from..to.unwrap_or(values.len())).ok_or_else(outside)?.to_vec()))
        }
        other => {
            let whole = as_text(other)?;
            Ok(text(whole.get(from..to.unwrap_or(whole.len())).ok_or_else(outside)?))
        }
    }
}

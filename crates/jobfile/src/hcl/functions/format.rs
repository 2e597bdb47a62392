//! `format` and `formatlist`: text from a pattern with verbs, as `%s` and `%05.2f`.

use std::{iter::Peekable, str::Chars};

use super::{Arguments, Function, SOME, check_bytes, encoding::to_json, function};
use crate::hcl::value::Value;

pub(super) static TABLE: &[Function] =
    &[function("format", SOME, format_one), function("formatlist", SOME, format_each)];

/// Characters of one verb's result that blanks and zeros may fill.
const WIDTH_MAX: usize = 1024;

fn format_one(arguments: &Arguments<'_>) -> Result<Value, String> {
    let values: Vec<&Value> = arguments.values.iter().skip(1).collect();
    formatted(&arguments.text(0)?, &values).map(Value::text)
}

/// Formats once for each item of the lists among its arguments, which are of one length.
fn format_each(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (pattern, values) = (arguments.text(0)?, &arguments.values[1..]);
    let lengths = values.iter().filter_map(|value| match value {
        Value::List(list) => Some(list.inner.len()),
        _ => None,
    });
    let (Some(count), Some(longest)) = (lengths.clone().min(), lengths.max()) else {
        return Ok(Value::list(vec![format_one(arguments)?]));
    };
    if count != longest {
        return Err(format!("its lists have {count} and {longest} items"));
    }
    check_bytes(count.saturating_mul(pattern.len()))?;
    let one = |i: usize| {
        let values: Vec<&Value> = values.iter().map(|value| item(value, i)).collect();
        formatted(&pattern, &values).map(Value::text)
    };
    (0..count).map(one).collect::<Result<_, _>>().map(Value::list)
}

fn item(value: &Value, at: usize) -> &Value {
    match value {
        Value::List(list) => list.inner.get(at).unwrap_or(&Value::Null),
        other => other,
    }
}

/// What stands between `%` and its letter.
#[derive(Debug, Default)]
struct Verb {
    left: bool,
    zeros: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

fn formatted(pattern: &str, values: &[&Value]) -> Result<String, String> {
    let (mut text, mut next) = (String::new(), 0);
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let verb = Verb::read(&mut chars, &mut next)?;
        let letter = chars.next().ok_or("the pattern ends within a verb")?;
        if letter == '%' {
            text.push('%');
            continue;
        }
        let value = values.get(next).ok_or_else(|| format!("there is no argument for `%{letter}`"))?;
        next += 1;
        text.push_str(&verb.padded(verb.value(letter, value)?));
        check_bytes(text.len())?;
    }
    if next < values.len() { Err(format!("{} arguments, but {next} verbs", values.len())) } else { Ok(text) }
}

impl Verb {
    fn read(chars: &mut Peekable<Chars<'_>>, next: &mut usize) -> Result<Self, String> {
        let mut verb = Self::default();
        while let Some(flag @ ('-' | '0' | '+' | ' ' | '#')) = chars.peek().copied() {
            verb.left |= flag == '-';
            verb.zeros |= flag == '0';
            verb.plus |= flag == '+';
            chars.next();
        }
        verb.width = digits(chars)?.unwrap_or(0);
        if chars.next_if_eq(&'.').is_some() {
            verb.precision = Some(digits(chars)?.unwrap_or(0));
        }
        if chars.next_if_eq(&'[').is_some() {
            *next = digits(chars)?.and_then(|at| at.checked_sub(1)).ok_or("`%[` needs a position from 1")?;
            chars.next_if_eq(&']').ok_or("`%[` needs its `]`")?;
        }
        Ok(verb)
    }

    fn value(&self, letter: char, value: &Value) -> Result<String, String> {
        let wrong = |wanted: &str| format!("`%{letter}` needs {wanted}, found {}", value.kind());
        let number = || value.to_number().ok_or_else(|| wrong("a number"));
        let signed = |text: String, number: f64| {
            if self.plus && number >= 0.0 { format!("+{text}") } else { text }
        };
        match letter {
            'v' => match value {
                Value::Text(text) => Ok(self.cut(text)),
                other => Ok(to_json(other)?.to_string()),
            },
            's' => value.to_text().map(|text| self.cut(&text)).ok_or_else(|| wrong("text")),
            'q' => Ok(serde_json::Value::from(&*value.to_text().ok_or_else(|| wrong("text"))?).to_string()),
            't' => value.to_bool().map(|truth| truth.to_string()).ok_or_else(|| wrong("true or false")),
            'd' => number().map(|number| signed(format!("{:.0}", number.trunc()), number)),
            'b' => number().map(|number| format!("{:b}", number as i64)),
            'o' => number().map(|number| format!("{:o}", number as i64)),
            'x' => number().map(|number| format!("{:x}", number as i64)),
            'X' => number().map(|number| format!("{:X}", number as i64)),
            'f' => number().map(|n| signed(format!("{n:.*}", self.precision.unwrap_or(6)), n)),
            'e' => number().map(|n| signed(format!("{n:.*e}", self.precision.unwrap_or(6)), n)),
            'g' => number().map(|n| signed(n.to_string(), n)),
            _ => Err(format!("there is no verb `%{letter}`")),
        }
    }

    fn cut(&self, text: &str) -> String {
        text.chars().take(self.precision.unwrap_or(usize::MAX)).collect()
    }

    fn padded(&self, text: String) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        if self.left {
            return text + &" ".repeat(missing);
        }
        if !self.zeros {
            return " ".repeat(missing) + &text;
        }
        let digits = text.trim_start_matches(['+', '-']);
        let (sign, digits) = text.split_at(text.len() - digits.len());
        format!("{sign}{}{digits}", "0".repeat(missing))
    }
}

fn digits(chars: &mut Peekable<Chars<'_>>) -> Result<Option<usize>, String> {
    let mut number = None;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        let value = number.unwrap_or(0) * 10 + digit as usize;
        if value > WIDTH_MAX {
            return Err(format!("a width or precision of more than {WIDTH_MAX}"));
        }
        number = Some(value);
        chars.next();
    }
    Ok(number)
}

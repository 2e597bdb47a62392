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
    space: bool,
    sharp: bool,
    width: usize,
    precision: Option<usize>,
}

fn formatted(pattern: &str, values: &[&Value]) -> Result<String, String> {
    // Verbs may name their arguments (`%[2]s`), in any order and more than once: it is the last one used that must be the last.
    let (mut text, mut next, mut used) = (String::new(), 0, 0);
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
        used = used.max(next);
        text.push_str(&verb.padded(verb.value(letter, value)?));
        check_bytes(text.len())?;
    }
    if used < values.len() {
        return Err(format!("{} arguments, of which the pattern uses {used}", values.len()));
    }
    Ok(text)
}

impl Verb {
    fn read(chars: &mut Peekable<Chars<'_>>, next: &mut usize) -> Result<Self, String> {
        let mut verb = Self::default();
        while let Some(flag @ ('-' | '0' | '+' | ' ' | '#')) = chars.peek().copied() {
            verb.left |= flag == '-';
            verb.zeros |= flag == '0';
            verb.plus |= flag == '+';
            verb.space |= flag == ' ';
            verb.sharp |= flag == '#';
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
        let signed = |text: String| match (text.starts_with('-'), self.plus, self.space) {
            (false, true, _) => format!("+{text}"),
            (false, false, true) => format!(" {text}"),
            _ => text,
        };
        // By its sign and its amount, as Go writes it in any base.
        let whole = |digits: fn(u128) -> String| -> Result<String, String> {
            let whole = match value {
                Value::Int(whole) => Some(i128::from(*whole)),
                _ => Some(number()?).filter(|number| number.fract() == 0.0).map(|number| number as i128),
            };
            let whole = whole.ok_or_else(|| wrong("a whole number"))?;
            Ok(signed((if whole < 0 { "-" } else { "" }).to_owned() + &digits(whole.unsigned_abs())))
        };
        match letter {
            'v' => match value {
                Value::Text(text) if !self.sharp => Ok(self.cut(text)),
                other => Ok(to_json(other)?.to_string()),
            },
            's' => value.to_text().map(|text| self.cut(&text)).ok_or_else(|| wrong("text")),
            'q' => Ok(serde_json::Value::from(&*value.to_text().ok_or_else(|| wrong("text"))?).to_string()),
            't' => value.to_bool().map(|truth| truth.to_string()).ok_or_else(|| wrong("true or false")),
            'd' => whole(|amount| amount.to_string()),
            'b' => whole(|amount| format!("{amount:b}")),
            'o' => whole(|amount| format!("{amount:o}")),
            'x' => whole(|amount| format!("{amount:x}")),
            'X' => whole(|amount| format!("{amount:X}")),
            'f' => number().map(|number| signed(format!("{number:.*}", self.precision.unwrap_or(6)))),
            'e' => number().map(|number| signed(scientific(number, self.precision.unwrap_or(6)))),
            'E' => {
                number().map(|number| signed(scientific(number, self.precision.unwrap_or(6)).to_uppercase()))
            }
            'g' => number().map(|number| signed(number.to_string())),
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
        let digits = text.trim_start_matches(['+', '-', ' ']);
        let (sign, digits) = text.split_at(text.len() - digits.len());
        format!("{sign}{}{digits}", "0".repeat(missing))
    }
}

/// With two digits of the exponent at least, and its sign: `1.5e+00`.
fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
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
